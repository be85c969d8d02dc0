/*
 * te_segment.h - segment descriptors: what a segment publishes about itself, and its JSON.
 *
 * te_desc_parse() takes what Mooncake engines and te write and that of Mooncake's documents
 * (server_name, no lkey, numbers as 0x text); bytes are treated as hostile: bounded nesting,
 * strict types, addr + length may not wrap. te_desc_format() writes the real engine's form:
 * compact, keys sorted, integers.
 */
#ifndef TE_SEGMENT_H
#define TE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct te_err;

struct te_desc_map {			/* nvmeof: who mounted the file where */
	char *host, *path;
};

struct te_desc_buffer {
	char *name;			/* tcp: the server's name; rdma: location "cpu:0" */
	uint64_t addr, length;		/* bytes; addr of a file: where it lies in the segment (te_desc_parse() sets it) */
	uint32_t *rkey, *lkey;		/* nkeys each, NULL when none */
	size_t nkeys;
	char *location;			/* te's own member: "cpu:0", "*"; NULL when absent */
	char *file_path;		/* nvmeof */
	struct te_desc_map *map;
	size_t nmap;
};

struct te_desc_device {
	char *name;
	unsigned lid;
	char *gid;			/* 16 hex bytes joined by ':' */
};

/* te's own member of a descriptor, for peers that are te: how to reach it on the same host. */
struct te_desc_ext {
	bool present;
	char host[96];			/* "BOOT_ID/PIDNS": processes with the same one see each other's pids */
	int pid;
	int ctl_fd;			/* control page: /proc/PID/fd/CTL_FD, -1 when not offered */
	char token[40];			/* must be what the control page says */
	bool degraded;			/* rdma: NICs of its are down now, and will be listed again */
};

struct te_desc {
	char *name;			/* from `name`, else `server_name` */
	char *server_name;		/* of Mooncake's documents; NULL when absent */
	char *protocol;			/* "tcp", "rdma", "nvmeof", ... */
	unsigned tcp_data_port;		/* 0 when absent */
	unsigned tcp_proto_version;	/* 1 when absent */
	char *timestamp, *rdma_server_name;	/* NULL when absent */
	struct te_desc_device *devices;
	size_t ndevices;
	struct te_desc_buffer *buffers;
	size_t nbuffers;
	char *priority_matrix;		/* JSON text, NULL when absent */
	struct te_desc_ext te;

	bool seed_form;			/* what was parsed had `server_name` and no `name` */
	struct te_desc_range *ranges;	/* te_desc_covers()'s own */
	size_t nranges;
};

/* -EINVAL with the member that is wrong. -EPROTONOSUPPORT: a protocol that Mooncake has and te has not,
   or one that nobody knows. *out is the caller's: te_desc_free(). */
int te_desc_parse(const char *text, size_t len, struct te_desc **out, struct te_err *err);
/* malloc'ed JSON, no newline; NULL when memory is out. timestamp NULL: the time now is written.
   tcp_* members are written for every RAM protocol. An rdma buffer without keys is left out: older
   readers refuse the whole descriptor for an empty list. nvmeof: as register.py writes it. */
char *te_desc_format(const struct te_desc *d);
struct te_desc *te_desc_new(void);
void te_desc_free(struct te_desc *d);
/* Appends a zeroed buffer; NULL when memory is out. */
struct te_desc_buffer *te_desc_add_buffer(struct te_desc *d);
/* Frees all buffers, keeps the rest. */
void te_desc_clear_buffers(struct te_desc *d);
/* Does one registration of the descriptor cover [addr, addr+len)? Pieces that touch count as one; length 0 is
   always covered. O(log n) for a parsed descriptor. Several threads may ask at once. */
bool te_desc_covers(const struct te_desc *d, uint64_t addr, uint64_t len);

/*
 * nvmeof: where buffer b is on this host: what local_path_map says of server_name (with its port, then without),
 * else of host_name; else, where d was registered under one of these names, file_path itself. NULL: not here. The
 * text is d's.
 */
const char *te_desc_file_here(const struct te_desc *d, const struct te_desc_buffer *b,
			      const char *server_name, const char *host_name);

/* Deviations that te accepts but a real reader would refuse or stumble over, one sentence each,
   through cb. For te-meta show of what te_desc_parse() took. */
void te_desc_lint(const struct te_desc *d, void (*cb)(void *arg, const char *sentence), void *arg);

#ifdef __cplusplus
}
#endif

#endif
