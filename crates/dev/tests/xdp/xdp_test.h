/* What the test programs need of the kernel's and libbpf's headers. */
#ifndef XDP_TEST_H
#define XDP_TEST_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
enum { HASH = 1, ARRAY = 2, PERCPU_HASH = 5, PERCPU_ARRAY = 6, LRU_HASH = 9, LPM_TRIE = 11, DEVMAP = 14, XSKMAP = 17 };

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime)(void) = (void *)5;
static u32 (*random)(void) = (void *)7;
static u32 (*cpu_number)(void) = (void *)8;
static long (*redirect)(u32 ifindex, u64 flags) = (void *)23;
static long (*csum_diff)(u32 *from, u32 from_size, u32 *to, u32 to_size, u32 seed) = (void *)28;
static long (*adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*redirect_map)(void *map, u64 key, u64 flags) = (void *)51;
static long (*adjust_tail)(struct xdp_md *ctx, int delta) = (void *)65;

#define DATA(ctx) ((u8 *)(long)(ctx)->data)
#define END(ctx) ((u8 *)(long)(ctx)->data_end)

/* The UDP destination port of an untagged IPv4 frame without options, or IPv6 frame without extension headers; else -1. */
INLINE int udp_port(u8 *frame, u8 *end)
{
	if (frame + 14 + 20 + 8 > end)
		return -1;
	if (frame[12] == 8 && frame[13] == 0 && frame[14] == 0x45 && frame[23] == 17)
		return frame[36] << 8 | frame[37];
	if (frame + 14 + 40 + 8 > end)
		return -1;
	if (frame[12] == 0x86 && frame[13] == 0xdd && frame[20] == 17)
		return frame[56] << 8 | frame[57];
	return -1;
}

#endif
