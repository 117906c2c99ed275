/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Both ends of a forwarder, on one CPU, in turn: a source on port 0 and a sink on port 1, of any of DPDK's devices.
 * `ends [EAL] -- PCAP MILLISECONDS` sends the frames of the file over and over (each into a fresh buffer), as many as
 * the device takes, and answers one line of JSON: packets per second that came to the sink and that the source sent,
 * and the share of its bursts that did not fit. If that is small, the source is what was measured.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define BURST 32
#define BUFFERS 16383
#define CACHE 256
#define FRAME 64
#define FRAMES_MAX 4096
#define RING 1024
#define SLICES 5
#define WAIT_S 10

enum { SOURCE, SINK };

static uint8_t frames[FRAMES_MAX][FRAME];
static uint32_t frame_count, next_frame;
static struct rte_mempool *pool;
static uint64_t sent, received, bursts, full;
static volatile sig_atomic_t stop;

static void die(const char *what)
{
	fprintf(stderr, "ends: %s\n", what);
	exit(EXIT_FAILURE);
}

static void on_signal(int number)
{
	stop = number;
}

static void read_frames(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint32_t record[4];

	if (!file || fseek(file, 24, SEEK_SET) != 0)
		die("no pcap file");
	while (frame_count < FRAMES_MAX && fread(record, sizeof(record), 1, file) == 1 && record[2] == FRAME &&
	       fread(frames[frame_count], FRAME, 1, file) == 1)
		frame_count++;
	fclose(file);
	if (frame_count == 0)
		die("no frames of 64 bytes");
}

static void start(uint16_t port)
{
	struct rte_eth_conf conf = { 0 };

	if (rte_eth_dev_configure(port, 1, 1, &conf) != 0 ||
	    rte_eth_rx_queue_setup(port, 0, RING, 0, NULL, pool) != 0 ||
	    rte_eth_tx_queue_setup(port, 0, RING, 0, NULL) != 0 || rte_eth_dev_start(port) != 0)
		die("a port does not start");
}

static bool is_up(uint16_t port)
{
	struct rte_eth_link link = { 0 };

	return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

static void offer(void)
{
	struct rte_mbuf *pkts[BURST];
	uint16_t taken;

	bursts++;
	if (rte_pktmbuf_alloc_bulk(pool, pkts, BURST) != 0) {
		full++;
		return;
	}
	for (unsigned i = 0; i < BURST; i++) {
		next_frame = next_frame + 1 < frame_count ? next_frame + 1 : 0;
		memcpy(rte_pktmbuf_mtod(pkts[i], void *), frames[next_frame], FRAME);
		pkts[i]->data_len = FRAME;
		pkts[i]->pkt_len = FRAME;
	}
	taken = rte_eth_tx_burst(SOURCE, 0, pkts, BURST);
	sent += taken;
	full += taken < BURST;
	if (taken < BURST)
		rte_pktmbuf_free_bulk(pkts + taken, BURST - taken);
}

static void collect(uint16_t port, uint64_t *count)
{
	struct rte_mbuf *pkts[BURST];
	uint16_t got;

	do {
		got = rte_eth_rx_burst(port, 0, pkts, BURST);
		*count += got;
		rte_pktmbuf_free_bulk(pkts, got);
	} while (got == BURST);
}

static void turn(void)
{
	uint64_t ignored = 0;

	offer();
	collect(SINK, &received);
	collect(SOURCE, &ignored); /* what the forwarder says itself, such as neighbour discovery */
}

static void run_for(double seconds)
{
	uint64_t end = rte_rdtsc() + (uint64_t)(seconds * (double)rte_get_tsc_hz());

	while (rte_rdtsc() < end && !stop)
		for (int i = 0; i < 16; i++)
			turn();
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(double seconds)
{
	double in[SLICES], out[SLICES];
	uint64_t bursts_before = bursts, full_before = full;

	for (int i = 0; i < SLICES; i++) {
		uint64_t began = rte_rdtsc(), sent_before = sent, received_before = received;

		run_for(seconds / SLICES);
		double took = (double)(rte_rdtsc() - began) / (double)rte_get_tsc_hz();
		in[i] = (double)(received - received_before) / took;
		out[i] = (double)(sent - sent_before) / took;
	}
	qsort(in, SLICES, sizeof(double), ascending);
	qsort(out, SLICES, sizeof(double), ascending);
	printf("\n{\"received\":%.0f,\"sent\":%.0f,\"full\":%.4f}\n", in[SLICES / 2], out[SLICES / 2],
	       (double)(full - full_before) / (double)(bursts - bursts_before));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int taken = rte_eal_init(argc, argv);
	uint64_t started = rte_rdtsc();

	if (taken < 0 || argc - taken != 3)
		die("usage: ends [EAL] -- PCAP MILLISECONDS");
	argv += taken + 1;
	read_frames(argv[0]);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	pool = rte_pktmbuf_pool_create("ends", BUFFERS, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	if (!pool)
		die("no memory");
	start(SOURCE);
	start(SINK);
	fprintf(stderr, "ends: waiting\n");
	while (!stop && received == 0) {
		if (rte_rdtsc() - started > WAIT_S * rte_get_tsc_hz())
			die("nothing comes through");
		if (is_up(SOURCE) && is_up(SINK))
			turn();
	}
	run_for(0.1);
	measure(atof(argv[1]) / 1000);
	rte_eth_dev_stop(SOURCE);
	rte_eth_dev_stop(SINK);
	return rte_eal_cleanup() == 0 && !stop ? EXIT_SUCCESS : EXIT_FAILURE;
}
