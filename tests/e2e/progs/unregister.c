/*
 * unregister.c - after te_unregister() returns 0 nobody touches the memory, whatever is in flight.
 *
 * unregister TRANSPORT: a process owns a buffer that it registers, unregisters and checks again and
 * again, while this one writes into it without end. Then the same for the source side.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "prog.h"

enum { LENGTH = 1 << 20, ROUNDS = 60, PIECES = 16, PIECE = LENGTH / PIECES };

static void pause_us(long us)
{
	struct timespec t = { .tv_nsec = us * 1000 };

	nanosleep(&t, NULL);
}

/* The owner: its exit status is how often memory changed after it was unregistered (255: something
 * else). */
static void own(unsigned char *mem, int tell)
{
	struct te_engine *t = engine_new(NULL, false);
	struct te_err err = { 0 };
	int touched = 0, busy = 0;
	char name[128] = "";

	snprintf(name, sizeof(name), "%s", engine_name(t));
	for (int n = 0; n < ROUNDS; n++) {
		int rc;

		if (te_register(t, mem, LENGTH, "cpu:0", true, &err))
			die("te_register", &err);
		if (n == 0 && write(tell, name, sizeof(name)) != sizeof(name))
			_exit(255);
		pause_us(2000 + n * 100);
		rc = te_unregister(t, mem, &err);
		if (rc == -EBUSY) {
			busy++;
			n--;
			if (busy > 5)
				_exit(254);
			rc = te_unregister(t, mem, &err);
		}
		if (rc)
			_exit(255);
		memset(mem, 0xee, LENGTH);
		pause_us(3000);
		touched += !all_is(mem, 0xee, LENGTH);
	}
	te_engine_close(t);
	_exit(touched);
}

struct writer {
	struct te_engine *e;
	int32_t seg;
	uint64_t base;
	unsigned char *src;
	uint64_t completed, ended_badly;
};

static void write_once(struct writer *w)
{
	struct te_request req[PIECES];
	struct te_status st;
	uint64_t b = batch_new(w->e, PIECES);

	for (int i = 0; i < PIECES; i++)
		req[i] = (struct te_request){ .op = TE_WRITE,
					      .source = w->src + i * PIECE,
					      .target = w->seg,
					      .offset = w->base + (uint64_t)i * PIECE,
					      .length = PIECE };
	if (te_batch_submit(w->e, b, req, PIECES, NULL) == 0) {
		te_batch_wait(w->e, b, -1, NULL);
		for (size_t i = 0; i < PIECES; i++) {
			te_batch_status(w->e, b, i, &st);
			w->completed += st.state == TE_COMPLETED;
			w->ended_badly += st.state == TE_INVALID || st.state == TE_FAILED;
		}
		te_batch_drain(w->e, b, -1);
	}
	te_batch_free(w->e, b);
}

static void target_side(const char *transport)
{
	unsigned char *mem =
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct writer w = { 0 };
	char name[128];
	int tell[2], status;
	pid_t pid;

	if (pipe(tell))
		die("pipe", NULL);
	if ((pid = fork()) == 0)
		own(mem, tell[1]);
	close(tell[1]);
	if (read(tell[0], name, sizeof(name)) != sizeof(name))
		die("the owner", NULL);
	w.e = engine_new(transport, true);
	w.src = buffer_new(w.e, LENGTH, false);
	w.seg = segment_open(w.e, name);
	w.base = (uintptr_t)mem;
	while (waitpid(pid, &status, WNOHANG) == 0)
		write_once(&w);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	   "target side: status %d, the memory is quiet after each of %d unregistrations", status,
	   ROUNDS);
	ok(w.completed > 0, "%lu writes arrived meanwhile", (unsigned long)w.completed);
	ok(w.ended_badly > 0, "%lu were refused", (unsigned long)w.ended_badly);
	te_engine_close(w.e);
}

struct source_side {
	struct writer w;
	_Atomic bool stop;
};

static void *write_on(void *arg)
{
	struct source_side *s = arg;

	while (!atomic_load(&s->stop))
		write_once(&s->w);
	return NULL;
}

/* READs into a buffer that goes away: after 0 no byte of it changes. */
static void source_side(const char *transport)
{
	struct te_engine *t = engine_new(NULL, false);
	struct source_side s = { 0 };
	struct te_err err = { 0 };
	int touched = 0, rc = 0;
	pthread_t thread;

	s.w.e = engine_new(transport, true);
	s.w.base = (uintptr_t)buffer_new(t, LENGTH, true);
	s.w.src = buffer_new(s.w.e, LENGTH, false);
	s.w.seg = segment_open(s.w.e, engine_name(t));
	pthread_create(&thread, NULL, write_on, &s);
	for (int n = 0; n < ROUNDS && !rc; n++) {
		pause_us(1000);
		rc = te_unregister(s.w.e, s.w.src, &err);
		if (rc == 0) {
			/* What is sent from here on must not be seen at the other side. */
			memset((void *)(uintptr_t)s.w.base, 0x11, LENGTH);
			memset(s.w.src, 0xee, LENGTH);
			pause_us(2000);
			touched += !all_is((void *)(uintptr_t)s.w.base, 0x11, LENGTH);
			memset(s.w.src, n, LENGTH);
			rc = te_register(s.w.e, s.w.src, LENGTH, "cpu:0", false, &err);
		}
	}
	atomic_store(&s.stop, true);
	pthread_join(thread, NULL);
	ok(rc == 0, "source side: unregister and register %d times during transfers: %s", ROUNDS,
	   err.msg);
	ok(touched == 0, "nothing moves in between (%d times)", touched);
	ok(s.w.completed > 0, "%lu writes arrived", (unsigned long)s.w.completed);
	ok(te_unregister(s.w.e, s.w.src + 4096, NULL) == -ENOENT,
	   "an address inside a buffer is not its name");
	te_engine_close(s.w.e);
	te_engine_close(t);
}

int main(int argc, char **argv)
{
	const char *transport = argc > 1 ? argv[1] : "tcp";

	target_side(transport);
	source_side(transport);
	return tap_end();
}
