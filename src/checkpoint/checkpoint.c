/* Writes checkpoints: each rank its shard, then rank 0 the index, and a rename that makes the
 * folder visible. */
#include "checkpoint/checkpoint.h"
#include "base/hash.h"
#include "checkpoint/durable.h"
#include "checkpoint/parts.h"
#include "prepare/json_text.h"
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *pst_ckpt_shard_path(const char *folder, uint64_t step, uint32_t rank, uint32_t ranks) {
    char name[64], *temporary = pst_ckpt_folder(folder, step, 1);
    pst_ckpt_shard_name(name, rank, ranks);
    char *path = temporary ? pst_ckpt_join(temporary, name) : NULL;
    free(temporary);
    return path;
}

pst_status pst_ckpt_make_folders(const char *folder, uint64_t step) {
    char *temporary = pst_ckpt_folder(folder, step, 1);
    pst_status status = temporary ? pst_durable_mkdir(folder) : PST_ENOMEM;
    if (status == PST_OK) unlink(temporary); /* replaces a link, but not a folder */
    if (status == PST_OK) status = pst_durable_mkdir(temporary);
    free(temporary);
    return status;
}

void pst_ckpt_remove_folders(const char *folder, uint64_t step) {
    char *temporary = pst_ckpt_folder(folder, step, 1);
    if (temporary) rmdir(temporary); /* fails, as it should, if another rank has written there */
    free(temporary);
}

/* If what was just written cannot be read, the storage failed, not the user's input: ENOMEM, so
 * that training continues. */
static pst_status unreadable(const char *path) {
    char said[600];
    if (access(path, F_OK))
        return pst_fail(
            PST_ENOMEM,
            "checkpoint: shard %s is missing; check that all hosts write to the same folder", path);
    snprintf(said, sizeof said, "%s", pst_error());
    return pst_fail(PST_ENOMEM, "%s", said);
}

/* "wte.weight.m[0=0+128][0:8192]" is a part of tensor "wte.weight.m" (base: the length of that
 * name) and of its slice "0=0+128" ("": no slice); 0: not a part. */
static int is_part(const char *name, size_t *base, uint64_t *from, uint64_t *to,
                   char slice[PST_CKPT_SLICE]) {
    const char *open = strrchr(name, '['), *first = strchr(name, '[');
    int used = 0;
    if (!open || sscanf(open, "[%" SCNu64 ":%" SCNu64 "]%n", from, to, &used) != 2 || !used ||
        open[used])
        return 0;
    *base = (size_t)(first - name);
    *slice = 0;
    if (first == open) return 1;
    size_t n = (size_t)(open - first);
    if (n < 3 || n - 2 >= PST_CKPT_SLICE) return 0;
    memcpy(slice, first + 1, n - 2);
    slice[n - 2] = 0;
    return 1;
}

static json_t *shape_json(const uint64_t *dim, uint32_t n_dim) {
    json_t *shape = json_array();
    int whole = shape != NULL;
    for (uint32_t k = 0; whole && k < n_dim; k++)
        whole = !json_array_append_new(shape, json_integer((json_int_t)dim[k]));
    if (whole) return shape;
    json_decref(shape);
    return NULL;
}

/* The parameter that a tensor holds, or whose optimizer state it holds. */
static const pst_param *param_of(const pst_graph *g, const char *tensor) {
    for (uint32_t i = 0; g && i < g->n_param; i++) {
        size_t n = strlen(g->param[i].name);
        if (!strncmp(tensor, g->param[i].name, n) &&
            (!tensor[n] || (tensor[n] == '.' && !strchr(tensor + n + 1, '.'))))
            return &g->param[i];
    }
    return NULL;
}

/* Puts a part behind those of earlier elements: the owners of outer steps are not in the order of
 * ranks. Slices stay in the order of ranks. Returns 0 on success, and takes `part` over. */
static int insert_part(json_t *parts, json_t *part) {
    const json_int_t from = json_integer_value(json_object_get(part, "from"));
    size_t at = json_array_size(parts);
    while (at && !json_object_get(part, "slice") &&
           json_integer_value(json_object_get(json_array_get(parts, at - 1), "from")) > from)
        at--;
    return json_array_insert_new(parts, at, part);
}

/* Adds a part to the parts of the same tensor from earlier ranks. */
static pst_status add_part(json_t *tensors, const pst_graph *graph, const char *tensor,
                           const char *dtype, json_t *part) {
    json_t *all = json_object_get(tensors, tensor);
    const pst_param *param = param_of(graph, tensor);
    if (!all && param) {
        all = json_pack("{s:s, s:o, s:[]}", "dtype", dtype, "shape",
                        shape_json(param->dim, param->n_dim), "parts");
        if (json_object_set_new(tensors, tensor, all)) all = NULL;
    }
    if (all && !insert_part(json_object_get(all, "parts"), part)) return PST_OK;
    return all || param
               ? pst_no_memory("for a checkpoint's index")
               : pst_fail(PST_EINTERNAL,
                          "checkpoint: tensor %s belongs to no parameter of the model", tensor);
}

static pst_status add_tensor(json_t *tensors, const pst_graph *graph, const char *file,
                             const pst_safetensors_entry *e, const char *hash) {
    char tensor[PST_CKPT_NAME], slice[PST_CKPT_SLICE];
    size_t base;
    uint64_t from, to;
    if (is_part(e->name, &base, &from, &to, slice) && base < sizeof tensor) {
        memcpy(tensor, e->name, base);
        tensor[base] = 0;
        return add_part(tensors, graph, tensor, e->dtype,
                        json_pack("{s:s, s:s*, s:I, s:I, s:s}", "file", file, "slice",
                                  *slice ? slice : NULL, "from", (json_int_t)from, "to",
                                  (json_int_t)to, "xxh3", hash));
    }
    if (json_object_get(tensors, e->name))
        return pst_fail(PST_EINTERNAL, "checkpoint: two ranks have stored tensor %s", e->name);
    json_t *one = json_pack("{s:s, s:s, s:o, s:s}", "file", file, "dtype", e->dtype, "shape",
                            shape_json(e->dim, e->n_dim), "xxh3", hash);
    return json_object_set_new(tensors, e->name, one) ? pst_no_memory("for a checkpoint's index")
                                                      : PST_OK;
}

/* Adds one shard and its tensors to the index. seen: NULL, or the names of tensors and parts of
 * earlier shards, which are left out: in memory, replicas have the same. */
static pst_status collect_shard(const char *temporary, const char *name, const pst_graph *graph,
                                json_t *files, json_t *tensors, json_t *seen) {
    pst_safetensors_file *f = NULL;
    char *path = pst_ckpt_join(temporary, name);
    const int own = !strcmp(temporary, PST_CKPT_DESCRIPTORS);
    pst_status status = path ? PST_OK : PST_ENOMEM;
    if (path) status = own ? pst_safetensors_open_own(path, &f) : pst_safetensors_open(path, &f);
    if (status == PST_EINPUT && !own) status = unreadable(path);
    if (status == PST_OK) {
        char hash[20];
        snprintf(hash, sizeof hash, "%016" PRIx64, f->header_xxh3);
        if (json_array_append_new(files,
                                  json_pack("{s:s, s:s}", "name", name, "header_xxh3", hash)))
            status = pst_no_memory("for a checkpoint's index");
    }
    for (uint32_t i = 0; status == PST_OK && i < f->n_entry; i++) {
        char key[sizeof PST_CKPT_HASH_KEY + PST_CKPT_NAME];
        if (json_object_get(seen, f->entry[i].name)) continue;
        if (seen) json_object_set_new(seen, f->entry[i].name, json_true());
        snprintf(key, sizeof key, PST_CKPT_HASH_KEY "%s", f->entry[i].name);
        const char *hash = pst_safetensors_meta(f, key);
        status = add_tensor(tensors, graph, name, &f->entry[i], hash ? hash : "");
    }
    pst_safetensors_close(f);
    free(path);
    return status;
}

static int same_shape(const json_t *tensor, const pst_param *param) {
    const json_t *shape = json_object_get(tensor, "shape");
    if (!tensor || json_array_size(shape) != param->n_dim) return 0;
    for (uint32_t i = 0; i < param->n_dim; i++)
        if ((uint64_t)json_integer_value(json_array_get(shape, i)) != param->dim[i]) return 0;
    return 1;
}

/* Whether the parts cover the tensor: parts of replicas follow each other from the first element to
 * the last; slices have all elements in sum. */
static int all_parts(const json_t *tensor, const pst_param *param) {
    const json_t *parts = json_object_get(tensor, "parts");
    json_int_t at = 0;
    if (!parts) return 1;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *one = json_array_get(parts, i);
        json_int_t from = json_integer_value(json_object_get(one, "from"));
        if (!json_object_get(one, "slice") && from != at) return 0;
        at += json_integer_value(json_object_get(one, "to")) - from;
    }
    return (uint64_t)at == pst_param_elements(param);
}

static int has_parts(const json_t *tensors) {
    const char *name;
    json_t *tensor;
    json_object_foreach((json_t *)(uintptr_t)tensors, name,
                        tensor) if (json_object_get(tensor, "parts")) return 1;
    return 0;
}

typedef const char *(*replica_name)(const char *param, uint32_t replica, char out[PST_CKPT_NAME]);

/* Counts the tensors of a parameter of one replica after another; all must be complete. */
static pst_status count_replicas(const json_t *tensors, const pst_param *param,
                                 replica_name name_of, size_t *n) {
    char name[PST_CKPT_NAME];
    const json_t *tensor;
    for (uint32_t k = 0; (tensor = json_object_get(tensors, name_of(param->name, k, name)));
         k++, ++*n)
        if (!same_shape(tensor, param) || !all_parts(tensor, param))
            return pst_fail(PST_EINTERNAL, "checkpoint: tensor %s is not complete", name);
    return PST_OK;
}

/* Counts the bases of a parameter, of one replica and tensor rank after another. */
static void count_bases(const json_t *tensors, const pst_param *param, size_t *n) {
    char name[PST_CKPT_NAME];
    for (uint32_t k = 0; json_object_get(tensors, pst_ckpt_basis_name(param->name, k, 0, name));
         k++)
        for (uint32_t t = 0; json_object_get(tensors, pst_ckpt_basis_name(param->name, k, t, name));
             t++)
            ++*n;
}

/* Counts the residuals, second moments and bases of a parameter, and its copy; all must be
 * complete. */
static pst_status count_residuals(const json_t *tensors, const pst_param *param, size_t *n) {
    char name[PST_CKPT_NAME];
    const json_t *tensor = json_object_get(tensors, pst_ckpt_copy_name(param->name, name));
    if (tensor && (!same_shape(tensor, param) || !all_parts(tensor, param)))
        return pst_fail(PST_EINTERNAL, "checkpoint: tensor %s is not complete", name);
    *n += tensor != NULL;
    count_bases(tensors, param, n);
    PST_TRY(count_replicas(tensors, param, pst_ckpt_moments_name, n));
    return count_replicas(tensors, param, pst_ckpt_residual_name, n);
}

/* Counts the pending gradients of a parameter, of one step and replica after another. */
static pst_status count_pending(const json_t *tensors, const pst_param *param, size_t *n) {
    char name[PST_CKPT_NAME];
    const json_t *tensor;
    for (uint32_t age = 1;
         json_object_get(tensors, pst_ckpt_pending_name(param->name, age, 0, name)); age++)
        for (uint32_t k = 0;
             (tensor = json_object_get(tensors, pst_ckpt_pending_name(param->name, age, k, name)));
             k++, ++*n)
            if (!same_shape(tensor, param) || !all_parts(tensor, param))
                return pst_fail(PST_EINTERNAL, "checkpoint: tensor %s is not complete", name);
    return PST_OK;
}

static pst_status check_one(const json_t *tensors, const pst_param *param, const char *name) {
    const json_t *tensor = json_object_get(tensors, name);
    return same_shape(tensor, param) && all_parts(tensor, param)
               ? PST_OK
               : pst_fail(PST_EINTERNAL, "checkpoint: no rank has stored tensor %s", name);
}

/* Counts what islands add to a parameter: weight and states of one after another, outer momentum;
 * all must be complete. *islands: their number. */
static pst_status count_islands(const json_t *tensors, const pst_param *param,
                                const pst_optim_row *rule, size_t *n, uint32_t *islands) {
    static const char *const more[] = {PST_CKPT_KEPT_NAME, PST_CKPT_LEFT_NAME};
    char name[PST_CKPT_NAME];
    for (*islands = 0;
         json_object_get(tensors, pst_ckpt_island_name(param->name, *islands, "", name));
         ++*islands) {
        for (uint32_t k = 0; k <= pst_optim_states(rule, param); k++, ++*n)
            PST_TRY(check_one(tensors, param,
                              pst_ckpt_island_name(param->name, *islands,
                                                   k ? rule->state_name[k - 1] : "", name)));
        for (size_t k = 0; k < sizeof more / sizeof *more; k++) {
            pst_ckpt_island_name(param->name, *islands, more[k], name);
            if (!json_object_get(tensors, name)) continue;
            ++*n;
            PST_TRY(check_one(tensors, param, name));
        }
    }
    if (!json_object_get(tensors, pst_ckpt_velocity_name(param->name, name))) return PST_OK;
    ++*n;
    return check_one(tensors, param, name);
}

/* Checks that every trained parameter of the model and its state (of each island) is stored, and
 * nothing else but residuals, second moments and bases of replicas, copies, pending gradients and
 * outer momentum. */
static pst_status check_complete(const json_t *tensors, const pst_graph *graph,
                                 const char *optimizer) {
    const pst_optim_row *rule = *optimizer ? pst_optim_find(optimizer) : NULL;
    size_t expected = 0;
    char name[PST_NAME_MAX + 16];
    for (uint32_t i = 0; i < graph->n_param; i++) {
        const pst_param *param = graph->param + i;
        uint32_t islands;
        PST_TRY(count_residuals(tensors, param, &expected));
        PST_TRY(count_pending(tensors, param, &expected));
        PST_TRY(count_islands(tensors, param, rule, &expected, &islands));
        const uint32_t states = islands ? 0 : pst_optim_states(rule, param);
        for (uint32_t k = 0; !param->frozen && k <= states; k++, expected++) {
            snprintf(name, sizeof name, "%s%s%s", param->name, k ? "." : "",
                     k ? rule->state_name[k - 1] : "");
            PST_TRY(check_one(tensors, param, name));
        }
    }
    if (json_object_size(tensors) != expected)
        return pst_fail(PST_EINTERNAL,
                        "checkpoint: the shards contain %zu tensors, which do not match the %u "
                        "parameters of the model",
                        json_object_size(tensors), graph->n_param);
    return PST_OK;
}

static json_t *loss_json(double loss) { return isfinite(loss) ? json_real(loss) : json_null(); }

static json_t *numbers_json(const double *x, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_real(x[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Only of runs that look for spikes. */
static json_t *spikes_json(const pst_ckpt_info *info) {
    const pst_ckpt_recent *r = &info->recent;
    if (!r->n && !info->spiked) return NULL;
    return json_pack("{s:I, s:I, s:o, s:o}", "spiked", (json_int_t)info->spiked, "steps",
                     (json_int_t)r->n, "losses", numbers_json(r->loss, PST_CKPT_RECENT),
                     "log_norms", numbers_json(r->norm, PST_CKPT_RECENT));
}

/* Takes `files` and `tensors` over. */
static pst_status index_text(const pst_ckpt_info *info, const char *config, json_t *files,
                             json_t *tensors, char **out) {
    char model[20], data[20], text[20], tokenizer[20], base[20], own[20];
    uint64_t hash = 0;
    size_t digits;
    const int named = *info->best_of != 0;
    json_t *pending = info->pending ? json_integer((json_int_t)info->pending) : NULL;
    snprintf(model, sizeof model, "%016" PRIx64, info->model_hash);
    snprintf(data, sizeof data, "%016" PRIx64, info->data_hash);
    snprintf(tokenizer, sizeof tokenizer, "%016" PRIx64, info->tokenizer);
    snprintf(base, sizeof base, "%016" PRIx64, info->base);
    snprintf(text, sizeof text, "%016" PRIx64, pst_hash_bytes(config, strlen(config)));
    json_t *index = json_pack(
        "{s:s, s:i, s:I, s:I, s:I, s:s, s:s, s:s*, s:s*, s:o, s:s*, s:o*, s:o, s:I, s:f, s:I, s:I, "
        "s:o*, s:o*, s:s, s:s, "
        "s:s, "
        "s:o, "
        "s:o, "
        "s:s}",
        "format", PST_CKPT_FORMAT, "version", PST_CKPT_VERSION - !has_parts(tensors), "step",
        (json_int_t)info->step, "next_sample", (json_int_t)info->next_sample, "seed",
        (json_int_t)info->seed, "model_hash", model, "data_hash", data, "tokenizer",
        info->tokenizer ? tokenizer : NULL, "base", info->base ? base : NULL, "validation_loss",
        loss_json(info->validation_loss), "best_of", named ? info->best_of : NULL, "chosen_loss",
        named ? loss_json(info->chosen_loss) : NULL, "best_loss", loss_json(info->best_loss),
        "skipped", (json_int_t)info->skipped, "loss_scale", info->loss_scale, "loss_scale_good",
        (json_int_t)info->loss_scale_good, "evaluations_since_best", (json_int_t)info->no_better,
        "spikes", spikes_json(info), "pending", pending, "optimizer", info->optimizer, "config",
        "run.yaml", "config_xxh3", text, "files", files, "tensors", tensors, "xxh3",
        "0000000000000000");
    char *all = index ? pst_json_text(index, JSON_INDENT(1)) : NULL;
    pst_status status = all ? pst_ckpt_index_hash(all, strlen(all), &digits, &hash)
                            : pst_no_memory("for a checkpoint's index");
    json_decref(index);
    if (status == PST_OK) {
        snprintf(own, sizeof own, "%016" PRIx64, hash);
        memcpy(all + digits, own, 16);
        *out = all;
        all = NULL;
    }
    free(all);
    return status;
}

/* Removes what an earlier attempt that died has left in the temporary folder. */
static void remove_others(const char *temporary, const json_t *files) {
    DIR *dir = opendir(temporary);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        int ours = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
        for (size_t i = 0; i < json_array_size(files); i++)
            ours |= !strcmp(e->d_name,
                            json_string_value(json_object_get(json_array_get(files, i), "name")));
        char *path = ours ? NULL : pst_ckpt_join(temporary, e->d_name);
        if (path) pst_durable_remove(path);
        free(path);
    }
    if (dir) closedir(dir);
}

/* The text of the index over all shards in the temporary folder. */
static pst_status collect(const char *temporary, const pst_ckpt_info *info, const char *config,
                          const pst_graph *graph, uint32_t ranks, char **text) {
    json_t *files = json_array(), *tensors = json_object();
    pst_status status = files && tensors ? PST_OK : pst_no_memory("for a checkpoint's index");
    for (uint32_t i = 0; i < ranks && status == PST_OK; i++) {
        char name[64];
        pst_ckpt_shard_name(name, i, ranks);
        status = collect_shard(temporary, name, graph, files, tensors, NULL);
    }
    if (status == PST_OK && graph) status = check_complete(tensors, graph, info->optimizer);
    if (status == PST_OK) {
        remove_others(temporary, files);
        return index_text(info, config, files, tensors, text);
    }
    json_decref(files);
    json_decref(tensors);
    return status;
}

pst_status pst_ckpt_index_of(const pst_ckpt_memory *m, const pst_ckpt_info *info,
                             const char *config, const pst_graph *graph, char **text) {
    json_t *files = json_array(), *tensors = json_object(), *seen = json_object();
    pst_status status =
        files && tensors && seen ? PST_OK : pst_no_memory("for a checkpoint's index");
    for (uint32_t i = 0; i < m->n && status == PST_OK; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", m->fd[i]);
        status = collect_shard(PST_CKPT_DESCRIPTORS, name, graph, files, tensors, seen);
    }
    json_decref(seen);
    if (status == PST_OK) status = check_complete(tensors, graph, info->optimizer);
    if (status == PST_OK) return index_text(info, config, files, tensors, text);
    json_decref(files);
    json_decref(tensors);
    return status;
}

static pst_status write_in(const char *folder, const char *name, const char *text) {
    char *path = pst_ckpt_join(folder, name);
    pst_status status = path ? pst_durable_file(path, text, strlen(text)) : PST_ENOMEM;
    free(path);
    return status;
}

/* Before an older checkpoint is replaced: index, configuration and shard headers can be read. */
static pst_status check_opens(const char *temporary) {
    char said[600];
    pst_ckpt *c = NULL;
    pst_status status = pst_ckpt_open(temporary, &c);
    pst_ckpt_close(c);
    if (status != PST_EINPUT) return status;
    snprintf(said, sizeof said, "%s", pst_error());
    return pst_fail(PST_ENOMEM, "the new checkpoint cannot be read back: %s", said);
}

pst_status pst_ckpt_commit(const char *folder, const pst_ckpt_info *info, const char *config,
                           const pst_graph *graph, uint32_t ranks, char **path) {
    char *text = NULL, *temporary = pst_ckpt_folder(folder, info->step, 1);
    char *final = pst_ckpt_folder(folder, info->step, 0);
    pst_status status = temporary && final ? PST_OK : PST_ENOMEM;
    if (status == PST_OK) status = collect(temporary, info, config, graph, ranks, &text);
    if (status == PST_OK) status = write_in(temporary, "run.yaml", config);
    if (status == PST_OK) status = write_in(temporary, "index.json", text);
    if (status == PST_OK) status = pst_ckpt_tokenizer_of_run(folder, temporary);
    if (status == PST_OK) status = pst_durable_sync_folder(temporary);
    if (status == PST_OK) status = check_opens(temporary);
    if (status == PST_OK) status = pst_durable_rename(temporary, final);
    if (status == PST_OK) status = pst_durable_sync_folder(folder);
    /* ours if the commit failed; else an older checkpoint of this step */
    if (temporary) pst_durable_remove(temporary);
    if (status == PST_OK) {
        pst_ckpt_clean_until(folder, info->step);
        if (path) {
            *path = final;
            final = NULL;
        }
    }
    free(text);
    free(temporary);
    free(final);
    return status;
}
