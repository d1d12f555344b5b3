/*
 * denied: runs a program to which the kernel refuses userfaultfd, as the rules of many containers
 * do.
 *
 * usage: denied all PROGRAM [ARGUMENT ...]
 *        denied FILE PROGRAM [ARGUMENT ...]   only the first that is started, which makes FILE
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

static int refuse(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int all = strcmp(argv[1], "all") == 0;
    int first = all || open(argv[1], O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) >= 0;
    if (first && refuse() != 0) {
        perror("denied: seccomp");
        return 9;
    }
    execv(argv[2], argv + 2);
    perror("denied");
    return 9;
}
