/* See identity.h. */
#include "group/identity.h"
#include "penstock/run.h"
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "penstock.identity"

/* The build id that the linker wrote into the file that contains `own`. */
typedef struct {
    uintptr_t own;
    char text[48];
} build_note;

static void read_note(const uint8_t *at, size_t bytes, build_note *note) {
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) head;
        memcpy(&head, at, sizeof head);
        size_t name = (head.n_namesz + 3u) & ~(size_t)3, desc = (head.n_descsz + 3u) & ~(size_t)3;
        if (sizeof head + name + desc > bytes) return;
        const uint8_t *id = at + sizeof head + name;
        for (uint32_t i = 0;
             head.n_type == NT_GNU_BUILD_ID && i < head.n_descsz && 2 * i + 3 < sizeof note->text;
             i++)
            snprintf(note->text + 2 * i, 3, "%02x", id[i]);
        at += sizeof head + name + desc;
        bytes -= sizeof head + name + desc;
    }
}

static int find_note(struct dl_phdr_info *file, size_t bytes, void *arg) {
    build_note *note = arg;
    int mine = 0;
    (void)bytes;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &file->dlpi_phdr[i];
        uintptr_t from = file->dlpi_addr + p->p_vaddr;
        mine |= p->p_type == PT_LOAD && note->own >= from && note->own < from + p->p_memsz;
    }
    for (int i = 0; mine && i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &file->dlpi_phdr[i];
        if (p->p_type == PT_NOTE)
            read_note((const uint8_t *)file->dlpi_addr + p->p_vaddr, p->p_memsz, note);
    }
    return mine;
}

const char *pst_identity_version(void) {
    static char text[sizeof((pst_identity *)0)->version];
    build_note note = {.own = (uintptr_t)&pst_identity_version};
    dl_iterate_phdr(find_note, &note);
    snprintf(text, sizeof text, "%.24s%s%.40s%s", pst_version(), *note.text ? " (build " : "",
             note.text, *note.text ? ")" : "");
    return text;
}

pst_status pst_identity_put(pst_world *w, const pst_identity *mine) {
    return w->ops->put(w, KEY, mine, sizeof *mine);
}

pst_status pst_identity_get(pst_world *w, uint32_t rank, pst_identity *out) {
    void *value;
    size_t bytes;
    PST_TRY(w->ops->get(w, rank, KEY, &value, &bytes));
    int same = bytes == sizeof *out;
    if (same) memcpy(out, value, sizeof *out);
    free(value);
    return same ? PST_OK
                : pst_fail(PST_EINPUT,
                           "rank %u runs a different version of penstock than this rank, %s", rank,
                           pst_identity_version());
}

pst_status pst_identity_place(pst_world *w, uint32_t rank, pst_rank_place *place) {
    pst_identity i;
    PST_TRY(pst_identity_get(w, rank, &i));
    *place = i.place;
    return PST_OK;
}
