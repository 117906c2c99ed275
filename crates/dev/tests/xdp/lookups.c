/* What the benchmark runs: headers are parsed, and two maps looked up. */
#include "xdp_test.h"

struct {
	__uint(type, HASH);
	__type(key, u32);
	__type(value, u32);
	__uint(max_entries, 4096);
} blocked SEC(".maps");

struct {
	__uint(type, ARRAY);
	__type(key, u32);
	__type(value, u64);
	__uint(max_entries, 256);
} protocols SEC(".maps");

SEC("xdp")
int lookups(struct xdp_md *ctx)
{
	u8 *frame = DATA(ctx), *end = END(ctx);
	u32 source, protocol;
	u64 *count;

	if (frame + 14 + 20 > end || frame[12] != 8 || frame[13] != 0)
		return XDP_PASS;
	source = *(u32 *)(frame + 26);
	if (map_lookup(&blocked, &source))
		return XDP_DROP;
	protocol = frame[23];
	count = map_lookup(&protocols, &protocol);
	if (count)
		*count += 1;
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
