/* See opcode.h. */
#include "base/opcode.h"

const char *pst_opcode_name(pst_opcode op) {
    static const char *const names[PST_OP_COUNT] = {
#define OPCODE_NAME(name, text) [PST_OP_##name] = text,
        PST_OPCODE_LIST(OPCODE_NAME)
#undef OPCODE_NAME
    };
    return (unsigned)op < PST_OP_COUNT ? names[op] : "?";
}
