/*
 * denied: runs a program under a kernel that refuses it a system call, as many containers do:
 * userfaultfd or membarrier.
 *
 * usage: denied CALL all PROGRAM [ARGUMENT ...]
 *        denied CALL FILE PROGRAM [ARGUMENT ...]    only the first process, which makes FILE
 *        denied CALL +FILE PROGRAM [ARGUMENT ...]   only processes that start when FILE exists
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int refuse(unsigned call) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
}

/* True if this process is refused the call. */
static int is_refused(const char *who) {
    if (who[0] == '+')
        return access(who + 1, F_OK) == 0;
    return strcmp(who, "all") == 0 || open(who, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) >= 0;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    unsigned call = strcmp(argv[1], "membarrier") == 0 ? SYS_membarrier : SYS_userfaultfd;
    if (is_refused(argv[2]) && refuse(call) != 0) {
        perror("denied: seccomp");
        return 9;
    }
    execv(argv[3], argv + 3);
    perror("denied");
    return 9;
}
