/* fuzz_desc.c - any bytes as a segment descriptor: refused, or kept through writing and reading. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "te_err.h"
#include "te_segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(void *arg, const char *sentence)
{
	*(size_t *)arg += strlen(sentence);
}

static char *rewrite(const char *text, size_t len, bool must)
{
	struct te_desc *d = NULL;
	struct te_err err = { 0 };
	size_t said = 0;
	char *out;

	if (te_desc_parse(text, len, &d, &err)) {
		if (must || !err.code || !*err.msg)
			abort();
		return NULL;
	}
	for (size_t i = 0; i < d->nbuffers; i++)
		if (!te_desc_covers(d, d->buffers[i].addr, d->buffers[i].length))
			abort();
	te_desc_lint(d, take, &said);
	if (!d->timestamp)
		d->timestamp = strdup("now");
	out = te_desc_format(d);
	if (!out)
		abort();
	te_desc_free(d);
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *first = rewrite((const char *)data, size, false), *second;

	if (!first)
		return 0;
	second = rewrite(first, strlen(first), true);
	if (strcmp(first, second))
		abort();
	free(first);
	free(second);
	return 0;
}
