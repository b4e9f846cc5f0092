/* Checks that each SEND has a matching RECV and each RECV a matching SEND. */
#ifndef PST_PIPELINE_CHECK_MESSAGE_H
#define PST_PIPELINE_CHECK_MESSAGE_H
#include "pipeline/check/checker.h"

/* Checks that both ends of every message name the same value and size and, in FIFO mode, that
 * messages are received in the order in which they are sent. Sets send_at and recv_at. EINPUT names
 * the instruction. */
pst_status pst_checker_messages(pst_checker *c, pst_check_mode mode);
#endif
