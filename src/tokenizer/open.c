/* Finds the files of a tokenizer, and the reader for them. */
#include "base/hash.h"
#include "tokenizer/parts.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The name of a file, or its ending, and the name of the file that belongs to it; in the order in
 * which a folder is searched. */
typedef enum { JSON, MERGES, RANKS, MODEL, WORDPIECE } format;
static const struct {
    const char *name, *partner;
    format format;
} files[] = {
    {"tokenizer.json", NULL, JSON},
    {"vocab.json", "merges.txt", MERGES},
    {"encoder.json", "vocab.bpe", MERGES},
    {".tiktoken", NULL, RANKS},
    {".model", NULL, MODEL},
    {"vocab.txt", NULL, WORDPIECE},
};
enum { N_FILE = sizeof files / sizeof *files };

static const char expected[] = "tokenizer.json, vocab.json with merges.txt, encoder.json with "
                               "vocab.bpe, *.tiktoken, *.model or vocab.txt";

static int ends_in(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    return n >= m && !strcmp(name + n - m, ending);
}

/* Remembers a file that the tokenizer is read from. */
static pst_status keep(pst_tokenizer *t, const char *path, const char *name) {
    char *file = strdup(path), *own = strdup(name);
    if (!file || !own) {
        free(file);
        free(own);
        return pst_no_memory("for the path of a tokenizer's file");
    }
    t->file[t->n_file] = file;
    t->name[t->n_file++] = own;
    return PST_OK;
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The path of a file beside `path`; the caller frees. */
static char *beside(const char *path, const char *name) {
    char *out = NULL;
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path + 1) : 0;
    return asprintf(&out, "%.*s%s", folder, path, name) < 0 ? NULL : out;
}

static pst_status read_pair(pst_tokenizer *t, const char *path, const char *vocabulary,
                            const char *merges) {
    char *first = beside(path, vocabulary), *second = beside(path, merges);
    pst_status status =
        first && second ? PST_OK : pst_no_memory("for the path of a tokenizer's file");
    if (status == PST_OK && access(second, F_OK))
        status = pst_fail(PST_EINPUT, "%s: %s is missing beside it", first, merges);
    if (status == PST_OK) status = pst_tokenizer_read_merges(t, first, second);
    if (status == PST_OK) status = keep(t, first, vocabulary);
    if (status == PST_OK) status = keep(t, second, merges);
    free(first);
    free(second);
    return status;
}

/* Llama 3's tokenizer.model has ranks. */
static pst_status read_model(pst_tokenizer *t, const char *path) {
    char *text;
    size_t bytes;
    PST_TRY(pst_tokenizer_read(path, &text, &bytes));
    int ranks = pst_ranks_is(text, bytes);
    free(text);
    return ranks ? pst_tokenizer_read_ranks(t, path) : pst_tokenizer_read_sentencepiece(t, path);
}

static pst_status read_one(pst_tokenizer *t, const char *path, format kind) {
    switch (kind) {
    case JSON: return pst_tokenizer_read_json(t, path);
    case RANKS: return pst_tokenizer_read_ranks(t, path);
    case MODEL: return read_model(t, path);
    default: return pst_tokenizer_read_wordpiece(t, path);
    }
}

/* A copy of a file whose name has only an ending keeps its name, which may tell the pattern. */
static pst_status read_format(pst_tokenizer *t, const char *path, uint32_t i) {
    if (files[i].format == MERGES) return read_pair(t, path, files[i].name, files[i].partner);
    PST_TRY(read_one(t, path, files[i].format));
    return keep(t, path, *files[i].name == '.' ? name_of(path) : files[i].name);
}

/* A file with any other name: by its ending. */
static pst_status read_by_ending(pst_tokenizer *t, const char *path) {
    for (uint32_t i = 0; i < N_FILE; i++) {
        const char *dot = strrchr(files[i].name, '.');
        int one = files[i].format == JSON || files[i].format == WORDPIECE;
        if (one && ends_in(path, dot)) return read_format(t, path, i);
    }
    return pst_fail(PST_EINPUT, "%s: not the name of a tokenizer's file; expected %s", path,
                    expected);
}

static pst_status read_file(pst_tokenizer *t, const char *path) {
    const char *name = name_of(path);
    for (uint32_t i = 0; i < N_FILE; i++) {
        int is_ending = *files[i].name == '.';
        if (is_ending ? ends_in(name, files[i].name) : !strcmp(name, files[i].name))
            return read_format(t, path, i);
        if (files[i].partner && !strcmp(name, files[i].partner)) return read_format(t, path, i);
    }
    return read_by_ending(t, path);
}

/* *found: the first name in the folder with this ending, in the order of strcmp, which the caller
 * frees; NULL: none, or the folder cannot be read by this user. */
static pst_status find_ending(const char *folder, const char *ending, char **found) {
    DIR *d = opendir(folder);
    pst_status status = PST_OK;
    *found = NULL;
    if (!d && errno != ENOENT && errno != ENOTDIR && errno != EACCES)
        return pst_fail(pst_status_of_errno(errno), "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; d && status == PST_OK && (entry = readdir(d));) {
        if (!ends_in(entry->d_name, ending) || (*found && strcmp(*found, entry->d_name) < 0))
            continue;
        free(*found);
        *found = strdup(entry->d_name);
        if (!*found) status = pst_no_memory("for the name of a tokenizer's file");
    }
    if (d) closedir(d);
    return status;
}

/* *path: of the first file in the folder, which is files[*which]; the caller frees. NULL: none. */
static pst_status find_file(const char *folder, char **path, uint32_t *which) {
    *path = NULL;
    for (uint32_t i = 0; i < N_FILE; i++) {
        char *found = NULL;
        if (*files[i].name == '.') {
            PST_TRY(find_ending(folder, files[i].name, &found));
            if (!found) continue;
        }
        if (asprintf(path, "%s/%s", folder, found ? found : files[i].name) < 0) *path = NULL;
        free(found);
        if (!*path) return pst_no_memory("for the path of a tokenizer's file");
        *which = i;
        if (access(*path, F_OK) == 0) return PST_OK;
        free(*path);
        *path = NULL;
    }
    return PST_OK;
}

static pst_status read_folder(pst_tokenizer *t, const char *folder) {
    char *path;
    uint32_t which;
    PST_TRY(find_file(folder, &path, &which));
    if (!path)
        return pst_fail(PST_EINPUT, "%s: no tokenizer in this folder; expected %s", folder,
                        expected);
    pst_status status = read_format(t, path, which);
    free(path);
    return status;
}

pst_status pst_tokenizer_find(const char *folder, char **name) {
    char *path;
    uint32_t which;
    PST_TRY(find_file(folder, &path, &which));
    *name = path ? strdup(name_of(path)) : NULL;
    int failed = path && !*name;
    free(path);
    return failed ? pst_no_memory("for the name of a tokenizer's file") : PST_OK;
}

static pst_status read_bytes(pst_tokenizer *t) {
    t->row = &pst_tokenizer_byte;
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        PST_TRY(pst_vocabulary_add(&t->vocabulary, i, &byte, 1));
    }
    return PST_OK;
}

static pst_status read_path(pst_tokenizer *t, const char *path) {
    struct stat st;
    if (!strcmp(path, "byte")) return read_bytes(t);
    if (stat(path, &st) && errno == ENOENT)
        return pst_fail(PST_EINPUT, "%s: no such file or folder; expected byte, or %s", path,
                        expected);
    if (stat(path, &st))
        return pst_fail(pst_status_of_errno(errno), "%s: %s", path, strerror(errno));
    return S_ISDIR(st.st_mode) ? read_folder(t, path) : read_file(t, path);
}

/* The token with which texts of well-known tokenizers end. */
static int32_t find_end(const pst_tokenizer *t) {
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "[SEP]"};
    int32_t id = -1;
    for (size_t i = 0; id < 0 && i < sizeof names / sizeof *names; i++)
        if (pst_tokenizer_special(t, names[i], &id) != PST_OK) id = -1;
    return id;
}

static uint64_t hash_more(uint64_t hash, const void *what, size_t bytes) {
    return pst_hash64(what, bytes, hash);
}

/* Of tables whose order has no meaning. */
static uint64_t hash_tables(const pst_tokenizer *t, uint64_t hash) {
    uint64_t sum = 0;
    for (size_t i = 0; i < t->pairs.n_slot; i++)
        if (t->pairs.slot[i].left != (uint32_t)PST_PAIR_NONE)
            sum += pst_hash64(&t->pairs.slot[i], sizeof t->pairs.slot[i], 0);
    for (size_t i = 0; i < t->n_special; i++) {
        const pst_special *s = &t->special[i];
        const int32_t about[] = {s->id, s->inner | s->always << 1 | s->left << 2 | s->right << 3};
        sum += pst_hash64(s->text, s->bytes, pst_hash64(about, sizeof about, 0));
    }
    hash = hash_more(hash, &sum, sizeof sum);
    const pst_charsmap *map = &t->sentencepiece.charsmap;
    if (map->unit) hash = hash_more(hash, map->unit, map->n_unit * sizeof *map->unit);
    if (map->text) hash = hash_more(hash, map->text, map->bytes);
    return hash;
}

/* Of all that decides ids, and not of the format of the files. Ranks (.tiktoken) allow merges that
 * a list of merges does not name, so their hash differs. */
static uint64_t hash_of(const pst_tokenizer *t) {
    const pst_wordpiece_options *o = &t->wordpiece;
    const int32_t flags[] = {t->compose, t->prefix, t->whole_words, t->unknown,      o->lower,
                             o->accents, o->clean,  o->han,         (int32_t)o->most};
    uint64_t hash = pst_hash64(t->row->name, strlen(t->row->name), 0);
    hash = hash_more(hash, flags, sizeof flags);
    const pst_sentencepiece *sp = &t->sentencepiece;
    const int32_t more[] = {sp->unigram, sp->prefix, sp->collapse, sp->bytes};
    if (sp->score) {
        hash = hash_more(hash, more, sizeof more);
        hash = hash_more(hash, sp->score, t->vocabulary.n * sizeof *sp->score);
    }
    for (uint32_t i = 0; i < t->n_step; i++) hash = hash_more(hash, &t->step[i].hash, 8);
    for (uint32_t id = 0; id < t->vocabulary.n; id++) {
        uint32_t bytes = UINT32_MAX;
        const uint8_t *text = pst_vocabulary_text(&t->vocabulary, id, &bytes);
        hash = hash_more(hash, &bytes, sizeof bytes);
        if (text) hash = hash_more(hash, text, bytes);
    }
    return hash_tables(t, hash);
}

pst_status pst_tokenizer_open(const char *path, pst_tokenizer **out) {
    pst_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return pst_no_memory("for a tokenizer");
    t->unknown = t->end = -1;
    pst_status status = read_path(t, path);
    if (status == PST_OK && !t->vocabulary.n_set)
        status = pst_fail(PST_EINPUT, "%s: the tokenizer has no tokens", path);
    if (status != PST_OK) {
        pst_tokenizer_close(t);
        return status;
    }
    t->size = t->vocabulary.n;
    t->hash = hash_of(t);
    if (t->end < 0) t->end = find_end(t);
    pst_error_clear();
    *out = t;
    return PST_OK;
}
