/* memory.c - what requests read into and write from. */
#include "bench.h"

#include "pattern.h"

int memory_get(struct te_engine *e, uint64_t len, void **out, struct te_err *err)
{
	const struct pattern p = { .seed = 1 };
	int rc = te_alloc(e, len, -1, 0, out, err);

	if (rc)
		return te_wrap(err, rc, "source memory of %llu bytes", (unsigned long long)len);
	pattern_fill(&p, 0, *out, len);
	rc = te_register(e, *out, len, NULL, false, err);
	if (rc) {
		te_free(e, *out);
		*out = NULL;
	}
	return rc;
}

void memory_put(struct te_engine *e, void *addr)
{
	if (addr && te_unregister(e, addr, NULL) == 0)
		te_free(e, addr);
}
