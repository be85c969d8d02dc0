/* churn.c - threads call on an engine that others open again, and destroy: they get results or
 * errors. Prints TAP. churn CONN */
#include <pthread.h>
#include <stdatomic.h>

#include "tap.h"

enum { THREADS = 3, ENGINES = 15 };

static _Atomic(transfer_engine_t) current;
static atomic_bool stop;
static atomic_ulong good, refused;
static char memory[4096];

static void *call(void *arg)
{
	while (!atomic_load(&stop)) {
		transfer_engine_t e = atomic_load(&current);
		batch_id_t batch = allocateBatchID(e, 1);
		char where[64];

		atomic_fetch_add(batch == INVALID_BATCH ? &refused : &good, 1);
		getLocalIpAndPort(e, where, sizeof(where));
		freeBatchID(e, batch);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	bool opened = true;
	char name[64];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, call, NULL);
	for (int i = 0; i < ENGINES; i++) {
		transfer_engine_t e =
			open_engine(argc > 1 ? argv[1] : "P2PHANDSHAKE", name, "churn");

		opened = opened && e && !registerLocalMemory(e, memory, sizeof(memory), "*", 1);
		/* No batch yet, else it would be refused before the engine is opened again. */
		installTransport(e, "rdma", NULL);
		atomic_store(&current, e);
		usleep(20000);
		installTransport(e, "rdma", NULL);
		enableGracefulShutdown(e);
		destroyTransferEngine(e);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ok(opened, "engines");
	ok(atomic_load(&good) > ENGINES, "calls that reached them");
	ok(atomic_load(&refused) > 0, "calls on those that were gone");
	return plan();
}
