/* mutate.c - stands in for libFuzzer: random changes to the files given, for a number of seconds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE_MAX_BYTES = 64 << 10, FILES_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	uint8_t *data;
	size_t size;
} file[FILES_MAX];
static size_t files;

/* xorshift64: the same run every time. */
static uint64_t state = 88172645463325252ull;

static size_t below(size_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (size_t)(state % (n ? n : 1));
}

static void load(const char *name)
{
	FILE *f = fopen(name, "rb");

	if (!f || files == FILES_MAX)
		exit(2);
	file[files].data = malloc(SIZE_MAX_BYTES);
	if (!file[files].data)
		exit(2);
	file[files].size = fread(file[files].data, 1, SIZE_MAX_BYTES / 2, f);
	fclose(f);
	files++;
}

static size_t change(uint8_t *data, size_t size)
{
	static const char *const words[] = {
		"[",	"]",	   "{", "}",   "\"",  ",",	 ":",
		"null", "-1",	   "0", "1e9", "0x1", "\\u0000", "18446744073709551616",
		"true", "[[[[[[[["
	};
	size_t at = below(size), len = below(16) + 1;
	const char *word = words[below(sizeof(words) / sizeof(*words))];

	switch (below(4)) {
	case 0:
		if (size)
			data[at] = (uint8_t)below(256);
		return size;
	case 1:
		len = len < size - at ? len : size - at;
		memmove(data + at, data + at + len, size - at - len);
		return size - len;
	case 2:
		len = strlen(word);
		break;
	case 3:
		len = len < size - at ? len : size - at;
		word = NULL;
		break;
	}
	if (size + len > SIZE_MAX_BYTES)
		return size;
	memmove(data + at + len, data + at, size - at);
	if (word)
		memcpy(data + at, word, len);
	return size + len;
}

int main(int argc, char **argv)
{
	static uint8_t work[SIZE_MAX_BYTES];
	time_t end;
	unsigned long runs = 0;

	if (argc < 3)
		return 2;
	end = time(NULL) + strtol(argv[1], NULL, 10);
	for (int i = 2; i < argc; i++)
		load(argv[i]);
	while (time(NULL) < end) {
		size_t i = below(files), size = file[i].size;

		memcpy(work, file[i].data, size);
		for (size_t n = below(8); n; n--)
			size = change(work, size);
		LLVMFuzzerTestOneInput(work, size);
		runs++;
	}
	fprintf(stderr, "%lu runs\n", runs);
	return 0;
}
