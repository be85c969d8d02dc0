/* fuzz_shake.c - any bytes as a handshake document: refused, or kept through writing and reading.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "te_err.h"
#include "transport/rdma/shake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *rewrite(const char *text, size_t len, bool must)
{
	struct te_err err = { 0 };
	struct te_shake s;
	char *out;

	if (te_shake_parse(text, len, &s, &err)) {
		if (must || !err.code || !*err.msg)
			abort();
		return NULL;
	}
	out = te_shake_format(&s);
	if (!out)
		abort();
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *first = rewrite((const char *)data, size, false), *second;
	struct te_shake s;

	te_shake_parse_retire((const char *)data, size, &s, NULL);
	if (!first)
		return 0;
	second = rewrite(first, strlen(first), true);
	if (strcmp(first, second))
		abort();
	free(first);
	free(second);
	return 0;
}
