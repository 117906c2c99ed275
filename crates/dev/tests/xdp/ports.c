/* By the UDP destination port: 7 is sent back, 9 dropped, 11 aborted, 19 redirected to all hosts of an interface, 21 gets a tag
 * of a VLAN; anything else passes. `ports` counts each port. */
#include "xdp_test.h"

struct {
	__uint(type, HASH);
	__type(key, u32);
	__type(value, u64);
	__uint(max_entries, 1024);
} ports SEC(".maps");

struct {
	__uint(type, PERCPU_ARRAY);
	__type(key, u32);
	__type(value, u64);
	__uint(max_entries, 1);
} frames SEC(".maps");

const volatile u32 dropped_port = 9;
/* The interface to redirect to, which tests write into the file. */
const volatile u32 redirect_to = 0x5eed5eed;

static __attribute__((noinline)) void count(u32 port)
{
	u64 one = 1, *there = map_lookup(&ports, &port);

	if (there)
		__sync_fetch_and_add(there, 1);
	else
		map_update(&ports, &port, &one, 0);
}

INLINE void swap_bytes(u8 *a, u8 *b, int n)
{
	for (int i = 0; i < n; i++) {
		u8 byte = a[i];

		a[i] = b[i];
		b[i] = byte;
	}
}

SEC("xdp")
int by_port(struct xdp_md *ctx)
{
	u8 *frame = DATA(ctx), *end = END(ctx);
	int port = udp_port(frame, end);
	u32 zero = 0;
	u64 *all = map_lookup(&frames, &zero);

	if (all)
		*all += 1;
	if (port < 0)
		return XDP_PASS;
	count(port);
	if (port == dropped_port)
		return XDP_DROP;
	if (port == 11)
		return XDP_ABORTED;
	if (port == 19) {
		/* Any host there takes it. */
		if (frame + 14 > end)
			return XDP_DROP;
		__builtin_memset(frame, 0xff, 6);
		return redirect(redirect_to, 0);
	}
	if (port == 7) {
		if (frame + 14 + 20 + 8 > end)
			return XDP_DROP;
		swap_bytes(frame, frame + 6, 6);
		if (frame[12] == 8) {
			swap_bytes(frame + 26, frame + 30, 4);
			swap_bytes(frame + 34, frame + 36, 2);
		} else {
			if (frame + 14 + 40 + 8 > end)
				return XDP_DROP;
			swap_bytes(frame + 22, frame + 38, 16);
			swap_bytes(frame + 54, frame + 56, 2);
		}
		return XDP_TX;
	}
	if (port == 21) {
		u8 link[14];

		if (frame + 14 > end)
			return XDP_DROP;
		__builtin_memcpy(link, frame, 14);
		if (adjust_head(ctx, -4))
			return XDP_ABORTED;
		frame = DATA(ctx);
		end = END(ctx);
		if (frame + 18 > end)
			return XDP_ABORTED;
		/* An 802.1Q tag of VLAN 5. */
		__builtin_memcpy(frame, link, 12);
		frame[12] = 0x81;
		frame[13] = 0;
		frame[14] = 0;
		frame[15] = 5;
		return XDP_PASS;
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
