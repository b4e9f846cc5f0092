/* JSON as text. */
#ifndef PST_PREPARE_JSON_TEXT_H
#define PST_PREPARE_JSON_TEXT_H
#include <jansson.h>

/* The JSON as text, which the caller frees; flags: of jansson. NULL: no memory, which json_dumps
 * does not always report. */
char *pst_json_text(const json_t *json, size_t flags);
#endif
