/*
 * payload.h - memory that peers read and write.
 *
 * Two peers, or one over two connections, may use the same bytes of a region at the same time, or one after
 * the other with nothing but their own messages in between. As with RDMA that is their business; the thread
 * sanitizer is told so, around the accesses themselves.
 */
#ifndef TE_TCP_PAYLOAD_H
#define TE_TCP_PAYLOAD_H

#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

static inline void te_payload_begin(void)
{
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

static inline void te_payload_end(void)
{
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
static inline void te_payload_begin(void)
{
}

static inline void te_payload_end(void)
{
}
#endif

#endif
