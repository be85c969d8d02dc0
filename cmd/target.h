/* target.h - te-target's code, which te-bench runs too (--mode=target, --self). */
#ifndef TE_TARGET_H
#define TE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"

struct te_buffer;
struct te_engine;
struct te_err;
struct http_server;

/* The whole of te-target: returns its exit status. argv as in cli_parse(). */
int target_main(int argc, char **argv);

/* What follows is between target.c and target_memory.c. */

struct target_spec { /* --buffer=LOCATION:SIZE */
	char location[32];
	uint64_t size;
};

struct target {
	struct cli cli;
	const char *protocol, *devices, *matrix;
	char *matrix_text; /* the file that matrix names */
	bool auto_discovery, hugepages;
	uint64_t node_size; /* --buffer-size, 0 when not given */
	struct target_spec *specs;
	size_t nspecs;
	const char *file;
	bool pattern;
	uint64_t seed;
	const char *ready_file, *metrics;
	double max_duration, idle_timeout; /* seconds, 0: none */

	int signals; /* signalfd */
	struct te_engine *engine;
	struct te_buffer *buffers; /* in address order, which is the published one */
	size_t nbuffers;
	void *map; /* of --file */
	size_t map_len;
	struct http_server *http;
};

/* Appends a copy; NULL when memory is out. len: of location. */
struct target_spec *target_add_spec(struct target *t, const char *location, size_t len,
				    uint64_t size);
/* Get the memory, fill it, register it. */
int target_memory(struct target *t, struct te_err *err);
/* After te_engine_close(). */
void target_memory_clear(struct target *t);

#endif
