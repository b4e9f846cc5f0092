/* Reads the names of labels in config.json. Declared in hf_config.h. */
#include "base/file.h"
#include "prepare/hf_config.h"
#include "prepare/hf_parts.h"
#include <stdlib.h>

enum { MAX_CONFIG = 16 << 20 };

pst_status pst_hf_parse_labels(const char *text, size_t bytes, const char *file, char ***name,
                               uint32_t *n) {
    pst_model_config c = {0};
    json_error_t error;
    *name = NULL;
    *n = 0;
    PST_TRY(pst_hf_parse_config(text, bytes, file, &c));
    if (!c.bert.labels) return PST_OK;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    pst_status status = pst_hf_copy_labels(root, c.bert.labels, name);
    json_decref(root);
    if (status == PST_OK) *n = c.bert.labels;
    return status;
}

typedef struct {
    char **name;
    uint32_t n;
} label_list;

static pst_status parse_into(const char *text, size_t bytes, const char *path, void *what) {
    label_list *list = what;
    return pst_hf_parse_labels(text, bytes, path, &list->name, &list->n);
}

pst_status pst_hf_read_labels(const char *source, char ***name, uint32_t *n) {
    label_list list = {0};
    int there;
    *name = NULL;
    *n = 0;
    PST_TRY(pst_hf_has_config(source, &there));
    if (!there || !pst_hf_is_folder(source)) return PST_OK;
    char *path = pst_hf_path(source, "config.json");
    pst_status status = path ? pst_file_parse(path, MAX_CONFIG, parse_into, &list) : PST_ENOMEM;
    free(path);
    *name = list.name;
    *n = list.n;
    return status;
}
