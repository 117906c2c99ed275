/* Does with tries what a datagram to port 4 asks for, and sends it back with the result. */
#include "xdp_test.h"

#define NO_PREALLOC 1

struct addr4 {
	u32 len;
	u8 addr[4];
};

struct addr6 {
	u32 len;
	u8 addr[16];
};

struct {
	__uint(type, LPM_TRIE);
	__type(key, struct addr4);
	__type(value, u64);
	__uint(max_entries, 24);
	__uint(map_flags, NO_PREALLOC);
} short_ones SEC(".maps");

struct {
	__uint(type, LPM_TRIE);
	__type(key, struct addr6);
	__type(value, u64);
	__uint(max_entries, 24);
	__uint(map_flags, NO_PREALLOC);
} long_ones SEC(".maps");

/* Behind the UDP header. */
struct request {
	u8 what, is_long, flags, len;
	u8 addr[16];
	u64 value;
	long result;
} __attribute__((packed));

INLINE void answer(void *map, void *key, struct request *request)
{
	u64 value = request->value, *found;

	if (request->what == 0) {
		found = map_lookup(map, key);
		request->result = found ? 1 : 0;
		if (found)
			request->value = *found;
	} else if (request->what == 1) {
		request->result = map_update(map, key, &value, request->flags);
	} else {
		request->result = map_delete(map, key);
	}
}

SEC("xdp")
int prefixes(struct xdp_md *ctx)
{
	u8 *frame = DATA(ctx), *end = END(ctx);
	struct request *request = (struct request *)(frame + 42);
	struct addr4 addr4;
	struct addr6 addr6;

	if (udp_port(frame, end) != 4 || (u8 *)(request + 1) > end)
		return XDP_PASS;
	if (request->is_long) {
		addr6.len = request->len;
		__builtin_memcpy(addr6.addr, request->addr, 16);
		answer(&long_ones, &addr6, request);
	} else {
		addr4.len = request->len;
		__builtin_memcpy(addr4.addr, request->addr, 4);
		answer(&short_ones, &addr4, request);
	}
	return XDP_TX;
}

char _license[] SEC("license") = "Dual MIT/GPL";
