/* The checker's part about messages. */
#ifndef PST_PIPELINE_CHECK_MESSAGE_H
#define PST_PIPELINE_CHECK_MESSAGE_H
#include "pipeline/check/checker.h"

/* Every message has both ends, which agree; in FIFO mode, in the same order. Fills send_at,
 * recv_at. */
pst_status pst_checker_messages(pst_checker *c, pst_check_mode mode);
#endif
