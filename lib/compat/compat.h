/* compat.h - what the files of this folder share: handles, engines, codes. */
#ifndef TE_COMPAT_H
#define TE_COMPAT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "te.h"
#include "transfer_engine_c.h"

struct compat_buffer { /* what is registered, so that it can be again */
	struct compat_buffer *next;
	void *addr;
	size_t len;
	char *location;
	bool remote;
};

struct compat_open {
	int32_t id;
	uint32_t count; /* opens that have not been closed */
};

struct compat_engine {
	struct te_engine *te;
	char *conn, *name, *matrix;
	const char *protocol; /* "auto", "tcp", "rdma" */
	_Atomic bool used;    /* ids of segments or batches are out */
	bool graceful;

	pthread_mutex_t lock; /* everything below */
	struct compat_buffer *buffers; /* the last one first */
	struct compat_open *open; /* segments */
	size_t nopen;
};

/* ---- handles.c: a handle is an index and a generation, never an address */
/* Takes e; NULL: too many engines. */
transfer_engine_t compat_handle_new(struct compat_engine *e);
/* The engine, which stays until compat_put(); NULL: stale, invented, or it could not be opened again. */
struct compat_engine *compat_get(transfer_engine_t h);
void compat_put(transfer_engine_t h);
/* 0, or TE_CODE_INVALID_ARGUMENT where compat_get() finds no engine. */
int compat_check(transfer_engine_t h);
/* The same for who changes the engine: alone, and its te may be NULL. */
struct compat_engine *compat_get_alone(transfer_engine_t h);
void compat_put_alone(transfer_engine_t h);
/* Once nobody uses it, calls destroy() on it, then takes it out of the table. */
void compat_handle_free(transfer_engine_t h, void (*destroy)(struct compat_engine *e));
/* Handles of all engines, one after the other from *at = 0 on; NULL: no more. Waits for those that are being freed. */
transfer_engine_t compat_next(unsigned *at);

/* ---- segments.c: what is registered, the last one first */
int compat_register(struct compat_engine *e, const struct compat_buffer *list, struct te_err *err);
void compat_buffers_free(struct compat_buffer *list);

/* ---- codes.c */
/* TE_CODE_* of a negative errno; 0 of what is not negative. */
int compat_code(int r);
/* The same of what was asked of an address: there -ENOENT is not about the store. */
int compat_memory_code(int r);
/* compat_code(), and the reason goes to the log. */
int compat_fail(int r, const char *call, const struct te_err *err);

#endif
