/* Labels in config.json: id2label, {"0": "negative", "1": "positive"}, which transformers leaves
 * out if there are two that have no names, and label2id. Names such as LABEL_0 are those that
 * transformers gives where there are none. */
#include "base/plural.h"
#include "prepare/hf_parts.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_LABELS = 1 << 20, NUMBER = 32 };

static const char *label_at(const json_t *names, uint32_t i) {
    char number[NUMBER];
    snprintf(number, sizeof number, "%u", i);
    return json_string_value(json_object_get(names, number));
}

static void usual_name(char name[NUMBER], uint32_t i) { snprintf(name, NUMBER, "LABEL_%u", i); }

pst_status pst_hf_count_labels(const json_t *root, const char *file, uint32_t *n) {
    enum { USUAL = 2 };
    const json_t *names = json_object_get(root, "id2label");
    const json_t *number = json_object_get(root, "num_labels");
    *n = USUAL;
    if (!names || json_is_null(names))
        return number && !json_is_null(number) ? pst_hf_size_of(root, file, "num_labels", n)
                                               : PST_OK;
    const size_t size = json_object_size(names);
    if (size < 2 || size > MOST_LABELS)
        return pst_fail(PST_EINPUT, "%s: id2label has %zu label%s; expected 2 to %d", file, size,
                        pst_plural(size), MOST_LABELS);
    for (uint32_t i = 0; i < size; i++)
        if (!label_at(names, i))
            return pst_fail(PST_EINPUT,
                            "%s: id2label has %zu labels, but no name for the number %u", file,
                            size, i);
    *n = (uint32_t)size;
    return PST_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int are_usual(const json_t *names, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        char name[NUMBER];
        usual_name(name, i);
        if (strcmp(name, label_at(names, i)) != 0) return 0;
    }
    return 1;
}

pst_status pst_hf_copy_labels(const json_t *root, uint32_t n, char ***out) {
    const json_t *names = json_object_get(root, "id2label");
    *out = NULL;
    if (!names || json_is_null(names) || are_usual(names, n)) return PST_OK;
    char **name = calloc(n, sizeof *name);
    int missing = !name;
    for (uint32_t i = 0; name && i < n; i++) missing |= !(name[i] = strdup(label_at(names, i)));
    *out = name;
    if (!missing) return PST_OK;
    for (uint32_t i = 0; name && i < n; i++) free(name[i]);
    free(name);
    *out = NULL;
    return pst_no_memory("for the names of labels");
}

/* --- writing ---------------------------------------------------------------------------------- */

pst_status pst_hf_add_labels(json_t *root, const pst_bert *b) {
    json_t *names = json_object(), *numbers = json_object();
    int failed = !names || !numbers;
    for (uint32_t i = 0; !failed && i < b->labels; i++) {
        char number[NUMBER], name[NUMBER];
        snprintf(number, sizeof number, "%u", i);
        usual_name(name, i);
        const char *own = b->label_name ? b->label_name[i] : name;
        failed |= json_object_set_new(names, number, json_string(own));
        failed |= json_object_set_new(numbers, own, json_integer(i));
    }
    failed |= json_object_set_new(root, "id2label", names);
    failed |= json_object_set_new(root, "label2id", numbers);
    return failed ? pst_no_memory("for the names of labels") : PST_OK;
}
