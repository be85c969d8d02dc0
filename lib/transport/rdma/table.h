/* table.h - a peer's descriptor, digested: buffers by address, with the row of the peer's matrix that each lies in. */
#ifndef TE_RDMA_TABLE_H
#define TE_RDMA_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct te_desc;
struct te_err;
struct te_matrix;

struct rdma_range {			/* a buffer of the peer, or one node's part of it */
	uint64_t addr, len;
	const uint32_t *rkey;		/* by device */
	size_t row;			/* of its location in the matrix; nrows: none */
};

struct rdma_device {
	char name[64], gid[48];
	unsigned lid;
};

/* Constant; replaced as a whole when the descriptor has changed. */
struct rdma_table {
	struct te_matrix *matrix;	/* NULL: the peer has none that can be read */
	struct rdma_device *devices;
	size_t ndevices;
	struct rdma_range *ranges;	/* by addr */
	size_t nranges;
	uint32_t *rkeys;
};

/* NULL: out of memory. Buffers without a key for each device are left out. */
struct rdma_table *rdma_table_new(const struct te_desc *d);
void rdma_table_free(struct rdma_table *t);
/* The buffer that holds addr; NULL. */
const struct rdma_range *rdma_range(const struct rdma_table *t, uint64_t addr);

#endif
