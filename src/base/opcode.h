/* The kinds of instructions. The lists are in pipeline/; comm/ needs the names for messages about
 * ranks that have ended. */
#ifndef PST_BASE_OPCODE_H
#define PST_BASE_OPCODE_H

/* X(name, text). From PACK on: the flush, which has no chunk and no micro-batch. */
/* clang-format off */
#define PST_OPCODE_LIST(X) \
    X(F, "F") X(B, "B") X(W, "W") X(BW, "BW") /* passes of a chunk for one micro-batch */ \
    X(SEND, "SEND") X(RECV, "RECV") /* one value to or from a peer */ \
    X(PACK, "PACK") /* packs this rank's gradient of a piece with a codec */ \
    X(UNPACK, "UNPACK") /* unpacks a received gradient */ \
    X(REDUCE, "REDUCE") /* adds a received accumulator, or that of another use of a parameter */ \
    X(NORM, "NORM") /* this rank's fp64 sums of squares */ \
    X(GATHER, "GATHER") /* rank 0: all sums in name order -> norm and clip factor */ \
    X(STEP, "STEP") /* optimizer on this rank's parameters */ \
    X(VALIDATE, "VALIDATE") /* post-validation: rolls back or repeats STEP */ \
    X(OUTER, "OUTER") /* islands: outer step of a piece, or the end of the exchange */
/* clang-format on */
typedef enum {
#define PST_OPCODE_ENUM(name, text) PST_OP_##name,
    PST_OPCODE_LIST(PST_OPCODE_ENUM)
#undef PST_OPCODE_ENUM
        PST_OP_COUNT
} pst_opcode;
/* "?" for an unknown opcode. */
const char *pst_opcode_name(pst_opcode op);
#endif
