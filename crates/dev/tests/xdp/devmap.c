/* Redirects all frames to the interface in a map, and those for which there is none to the AF_XDP socket of their queue. */
#include "xdp_test.h"

struct {
	__uint(type, DEVMAP);
	__type(key, u32);
	__type(value, u32);
	__uint(max_entries, 4);
	__uint(pinning, 1);
} pantala_test_out SEC(".maps");

struct {
	__uint(type, XSKMAP);
	__type(key, u32);
	__type(value, u32);
	__uint(max_entries, 4);
} sockets SEC(".maps");

SEC("xdp")
int to_device(struct xdp_md *ctx)
{
	long action = redirect_map(&pantala_test_out, 0, XDP_PASS);

	return action == XDP_REDIRECT ? action : redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
}

char _license[] SEC("license") = "Dual MIT/GPL";
