/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Gives each packet that l3fwd receives a destination from a table, so that a small, warm set of packets asks for as
 * many routes as one likes. The table is a file of IPv4 addresses in network order, named by PT_DESTINATIONS; their
 * number is a power of two. Included before l3fwd's sources (`gcc -include`), which stay as they are.
 *
 * One store of four bytes per packet, read from the table in sequence: cheaper for l3fwd than a million packets would
 * be. Nobody verifies the header checksum there, so it is not mended.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define SCATTER_MAX (1u << 20)
#define SCATTER_AT (14 + 16) /* of the destination in an Ethernet frame with IPv4 */

static uint32_t scatter_table[SCATTER_MAX];
static uint32_t scatter_mask, scatter_next;

static __attribute__((constructor, unused)) void scatter_load(void)
{
	const char *path = getenv("PT_DESTINATIONS");
	FILE *file = path ? fopen(path, "rb") : NULL;
	size_t count = file ? fread(scatter_table, sizeof(uint32_t), SCATTER_MAX, file) : 0;

	if (count == 0 || (count & (count - 1)) != 0) {
		fprintf(stderr, "scatter: PT_DESTINATIONS names no table of 2^n addresses\n");
		exit(EXIT_FAILURE);
	}
	scatter_mask = (uint32_t)count - 1;
	fclose(file);
}

static inline __attribute__((unused)) uint16_t
scattered_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t max)
{
	uint16_t count = rte_eth_rx_burst(port, queue, pkts, max);

	for (uint16_t i = 0; i < count; i++)
		*rte_pktmbuf_mtod_offset(pkts[i], uint32_t *, SCATTER_AT) =
			scatter_table[scatter_next++ & scatter_mask];
	return count;
}

#define rte_eth_rx_burst scattered_rx_burst
