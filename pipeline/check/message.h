/* Checks of messages: each SEND has a matching RECV, and the reverse. */
#ifndef PST_PIPELINE_CHECK_MESSAGE_H
#define PST_PIPELINE_CHECK_MESSAGE_H
#include "pipeline/check/checker.h"

/* Every message has two ends, which agree; in FIFO mode, also in their order. Fills send_at,
 * recv_at. */
pst_status pst_checker_messages(pst_checker *c, pst_check_mode mode);
#endif
