/* ranges.h - the sorted index behind te_desc_covers(). */
#ifndef TE_SEGMENT_RANGES_H
#define TE_SEGMENT_RANGES_H

struct te_desc;

/* From the buffers as they are now, none of which may wrap; adding or clearing buffers drops it.
   0, or -1 when memory is out. */
int te_desc_build_ranges(struct te_desc *d);

#endif
