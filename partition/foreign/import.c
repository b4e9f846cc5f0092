/* Detects the format of a workload. See import.h. */
#include "partition/foreign/import_json.h"
#include "partition/foreign/import.h"
#include <stdlib.h>
#include <string.h>

static pst_status parse_json(const char *text, size_t bytes, const char *where, pst_import *im) {
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return pst_fail(PST_ENOMEM, "%s: no memory to read the graph", where);
    if (!root)
        return pst_fail(PST_EINPUT, "%s:%d:%d: not JSON: %s", where, error.line, error.column,
                        error.text);
    pst_status status;
    if (json_object_get(root, "maxFPGAs")) status = pst_import_dnn(root, where, im);
    else if (json_object_get(root, "mbsInBatch")) status = pst_import_piper(root, where, im);
    else
        status = pst_fail(
            PST_EINPUT,
            "%s: unknown format: it has neither maxFPGAs (dnn-partitioning) nor mbsInBatch (Piper)",
            where);
    json_decref(root);
    return status;
}

pst_status pst_import_parse(const char *text, size_t bytes, const char *where,
                            pst_import **import) {
    pst_import *im = calloc(1, sizeof *im);
    if (!im) return pst_fail(PST_ENOMEM, "%s: no memory to read the graph", where);
    size_t at = 0;
    while (at < bytes && strchr(" \t\r\n", text[at]) && text[at]) at++;
    pst_status status;
    if (at < bytes && text[at] == '{') status = parse_json(text, bytes, where, im);
    else status = pst_import_pipedream(text, bytes, where, im);
    if (status == PST_OK) status = pst_import_check(im, where);
    if (status == PST_OK) *import = im;
    else pst_import_close(im);
    return status;
}
