/* Two programs, and a map that user space finds below /sys/fs/bpf. */
#include "xdp_test.h"

struct {
	__uint(type, ARRAY);
	__type(key, u32);
	__type(value, u64);
	__uint(max_entries, 1);
	__uint(pinning, 1);
} pantala_test_seen SEC(".maps");

SEC("xdp/pass")
int pass(struct xdp_md *ctx)
{
	u32 zero = 0;
	u64 *seen = map_lookup(&pantala_test_seen, &zero);

	if (seen)
		__sync_fetch_and_add(seen, 1);
	return XDP_PASS;
}

SEC("xdp/drop")
int drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";
