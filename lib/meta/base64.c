/* base64.c - RFC 4648, section 4. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "te_meta.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *te_base64_encode(const void *data, size_t len)
{
	const uint8_t *in = data;
	char *out = malloc((len + 2) / 3 * 4 + 1), *to = out;

	if (!out)
		return NULL;
	for (size_t i = 0; i < len; i += 3) {
		size_t have = len - i < 3 ? len - i : 3;
		uint32_t w = (uint32_t)in[i] << 16;

		w |= have > 1 ? (uint32_t)in[i + 1] << 8 : 0;
		w |= have > 2 ? in[i + 2] : 0;
		to[0] = alphabet[w >> 18];
		to[1] = alphabet[(w >> 12) & 63];
		to[2] = have > 1 ? alphabet[(w >> 6) & 63] : '=';
		to[3] = have > 2 ? alphabet[w & 63] : '=';
		to += 4;
	}
	*to = '\0';
	return out;
}

static int value(char c)
{
	const char *at = c ? strchr(alphabet, c) : NULL;

	return at ? (int)(at - alphabet) : -1;
}

int te_base64_decode(const char *text, size_t len, char **out, size_t *out_len)
{
	size_t pad = 0, n = 0;
	char *data;

	if (len % 4)
		return -EINVAL;
	while (pad < 2 && pad < len && text[len - 1 - pad] == '=')
		pad++;
	data = malloc(len / 4 * 3 + 1);
	if (!data)
		return -ENOMEM;
	for (size_t i = 0; i < len; i += 4) {
		uint32_t w = 0;

		for (size_t j = i; j < i + 4; j++) {
			int v = j >= len - pad ? 0 : value(text[j]);

			if (v < 0) {
				free(data);
				return -EINVAL;
			}
			w = w << 6 | (uint32_t)v;
		}
		data[n++] = (char)(w >> 16);
		data[n++] = (char)(w >> 8);
		data[n++] = (char)w;
	}
	n -= pad;
	data[n] = '\0';
	*out = data;
	*out_len = n;
	return 0;
}
