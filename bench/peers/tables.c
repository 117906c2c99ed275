/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Times DPDK's routing tables: `tables [EAL] -- lpm|fib|lpm6|fib6 RULES RANDOM REALISTIC MILLISECONDS`.
 *
 * RULES has lines `R prefix/length hop`; RANDOM and REALISTIC have destinations, 4 or 16 bytes each, in network order,
 * and are looked up over and over. Answers one line of JSON: seconds to load the table, bytes of DPDK's heap that it
 * takes, and lookups per second of both.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_lpm6.h>
#include <rte_malloc.h>

#define BULK 64
#define TBL8_4 (1 << 15)
#define TBL8_6 (1 << 18)
#define TBL8_FIB6 (1 << 19) /* it sets as many aside as each route could need at the worst */

struct rule {
	uint8_t addr[16];
	uint8_t len;
};

struct destinations {
	uint32_t *v4;
	uint8_t (*v6)[16];
	size_t count;
};

static void die(const char *what)
{
	fprintf(stderr, "tables: %s\n", what);
	exit(EXIT_FAILURE);
}

static struct rule *read_rules(const char *path, bool ip6, size_t *count)
{
	size_t room = 1 << 16;
	struct rule *rules = malloc(room * sizeof(*rules));
	FILE *file = fopen(path, "r");
	char line[128];

	if (!file || !rules)
		die("no rules");
	for (*count = 0; fgets(line, sizeof(line), file); (*count)++) {
		char *slash = strchr(line, '/');

		if (*count == room && !(rules = realloc(rules, (room *= 2) * sizeof(*rules))))
			die("no memory");
		if (line[0] != 'R' || !slash)
			die("a line is not a rule");
		*slash = '\0';
		rules[*count].len = (uint8_t)atoi(slash + 1);
		if (inet_pton(ip6 ? AF_INET6 : AF_INET, line + 1, rules[*count].addr) != 1)
			die("not an address");
	}
	fclose(file);
	return rules;
}

static struct destinations read_destinations(const char *path, bool ip6)
{
	struct destinations all = { 0 };
	size_t width = ip6 ? 16 : 4;
	FILE *file = fopen(path, "rb");
	long len;

	if (!file || fseek(file, 0, SEEK_END) != 0 || (len = ftell(file)) <= 0)
		die("no destinations");
	rewind(file);
	all.count = (size_t)len / width / BULK * BULK;
	void *bytes = aligned_alloc(64, (all.count * width + 63) / 64 * 64);
	if (!bytes || all.count == 0 || fread(bytes, width, all.count, file) != all.count)
		die("too few destinations");
	fclose(file);
	all.v4 = ip6 ? NULL : bytes;
	all.v6 = ip6 ? bytes : NULL;
	for (size_t i = 0; all.v4 && i < all.count; i++)
		all.v4[i] = ntohl(all.v4[i]);
	return all;
}

/* The table under test; only one of them is there. */
static struct rte_lpm *lpm;
static struct rte_lpm6 *lpm6;
static struct rte_fib *fib;
static struct rte_fib6 *fib6;

static void create(const char *kind, size_t routes)
{
	uint32_t room = (uint32_t)routes + 1024;
	struct rte_lpm_config lpm_conf = { .max_rules = room, .number_tbl8s = TBL8_4 };
	struct rte_lpm6_config lpm6_conf = { .max_rules = room, .number_tbl8s = TBL8_6 };
	struct rte_fib_conf fib_conf = {
		.type = RTE_FIB_DIR24_8, .max_routes = (int)room,
		.dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_4B, .num_tbl8 = TBL8_4 },
	};
	struct rte_fib6_conf fib6_conf = {
		.type = RTE_FIB6_TRIE, .max_routes = (int)room,
		.trie = { .nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = TBL8_FIB6 },
	};

	if (strcmp(kind, "lpm") == 0)
		lpm = rte_lpm_create("t", 0, &lpm_conf);
	else if (strcmp(kind, "lpm6") == 0)
		lpm6 = rte_lpm6_create("t", 0, &lpm6_conf);
	else if (strcmp(kind, "fib") == 0)
		fib = rte_fib_create("t", 0, &fib_conf);
	else if (strcmp(kind, "fib6") == 0)
		fib6 = rte_fib6_create("t", 0, &fib6_conf);
	if (!lpm && !lpm6 && !fib && !fib6)
		die("no table of that kind, or no memory for it");
}

static int add(const struct rule *rule, uint32_t hop)
{
	uint32_t addr4 = (uint32_t)rule->addr[0] << 24 | rule->addr[1] << 16 | rule->addr[2] << 8 | rule->addr[3];

	if (lpm)
		return rte_lpm_add(lpm, addr4, rule->len, hop);
	if (fib)
		return rte_fib_add(fib, addr4, rule->len, hop);
	if (lpm6)
		return rte_lpm6_add(lpm6, rule->addr, rule->len, hop);
	return rte_fib6_add(fib6, rule->addr, rule->len, hop);
}

static inline __attribute__((always_inline)) uint64_t lookup(const struct destinations *all, size_t at)
{
	uint64_t wide[BULK];
	uint32_t hops[BULK];
	int32_t signed_hops[BULK];

	if (lpm) {
		rte_lpm_lookup_bulk(lpm, all->v4 + at, hops, BULK);
		return hops[0];
	}
	if (fib) {
		rte_fib_lookup_bulk(fib, all->v4 + at, wide, BULK);
		return wide[0];
	}
	if (lpm6) {
		rte_lpm6_lookup_bulk_func(lpm6, all->v6 + at, signed_hops, BULK);
		return (uint64_t)signed_hops[0];
	}
	rte_fib6_lookup_bulk(fib6, all->v6 + at, wide, BULK);
	return wide[0];
}

static double lookups_per_second(const struct destinations *all, unsigned ms)
{
	uint64_t hz = rte_get_tsc_hz(), started, now, count = 0;
	volatile uint64_t sink = 0;
	size_t at = 0;

	for (size_t i = 0; i < all->count; i += BULK) /* warm */
		sink += lookup(all, i);
	started = now = rte_rdtsc();
	while (now - started < hz * ms / 1000) {
		for (int i = 0; i < 64; i++) {
			sink += lookup(all, at);
			at = at + BULK < all->count ? at + BULK : 0;
		}
		count += 64 * BULK;
		now = rte_rdtsc();
	}
	return (double)count * (double)hz / (double)(now - started);
}

static size_t heap(void)
{
	struct rte_malloc_socket_stats stats;

	return rte_malloc_get_socket_stats(0, &stats) == 0 ? stats.heap_allocsz_bytes : 0;
}

int main(int argc, char **argv)
{
	int taken = rte_eal_init(argc, argv);
	size_t count, before;
	uint64_t started;

	if (taken < 0 || argc - taken != 6)
		die("usage: tables [EAL] -- lpm|fib|lpm6|fib6 RULES RANDOM REALISTIC MILLISECONDS");
	argv += taken + 1;
	bool ip6 = strchr(argv[0], '6') != NULL;
	struct rule *rules = read_rules(argv[1], ip6, &count);
	struct destinations any = read_destinations(argv[2], ip6), likely = read_destinations(argv[3], ip6);
	unsigned ms = (unsigned)atoi(argv[4]) / 2;

	before = heap();
	started = rte_rdtsc();
	create(argv[0], count);
	for (size_t i = 0; i < count; i++)
		if (add(&rules[i], 1 + (uint32_t)(i % 255)) < 0)
			die("the table is full");
	double load = (double)(rte_rdtsc() - started) / (double)rte_get_tsc_hz();
	size_t bytes = heap() - before;
	double random = lookups_per_second(&any, ms), realistic = lookups_per_second(&likely, ms);
	printf("\n{\"routes\":%zu,\"load_seconds\":%.6f,\"bytes\":%zu,\"random\":%.0f,\"realistic\":%.0f}\n",
	       count, load, bytes, random, realistic);
	return rte_eal_cleanup() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
