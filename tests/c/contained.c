/*
 * contained PROFILE ANSWER COMMAND...: runs a command under a container's default rules for system
 * calls, on x86-64, with the capabilities of the container's root. PROFILE is docker (moby 25) or
 * podman (containers-common 0.5x); ANSWER, EPERM or ENOSYS, is returned for calls that the profile
 * does not name. The defaults are EPERM for docker and ENOSYS for podman.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LAST SYS_set_mempolicy_home_node /* newer calls are in neither profile */
#define NAMESPACES 0x7e020000u           /* flags of clone that make namespaces */

/* Refused by both with EPERM, as a capability is missing. */
static int const privileged[] = {
    SYS_acct, SYS_bpf, SYS_clock_settime, SYS_delete_module, SYS_fanotify_init, SYS_finit_module,
    SYS_get_mempolicy, SYS_init_module, SYS_ioperm, SYS_iopl, SYS_kcmp, SYS_kexec_file_load,
    SYS_kexec_load, SYS_lookup_dcookie, SYS_mbind, SYS_migrate_pages, SYS_move_pages,
    SYS_nfsservctl, SYS_open_by_handle_at, SYS_perf_event_open, SYS_process_madvise, SYS_quotactl,
    SYS_set_mempolicy, SYS_setdomainname, SYS_sethostname, SYS_settimeofday, SYS_swapoff,
    SYS_swapon, SYS_sysfs, SYS_userfaultfd, SYS_uselib, SYS_ustat, SYS_vhangup};
/* In neither profile. */
static int const unnamed[] = {
    SYS__sysctl, SYS_add_key, SYS_afs_syscall, SYS_create_module, SYS_get_kernel_syms, SYS_getpmsg,
    SYS_mount_setattr, SYS_putpmsg, SYS_query_module, SYS_quotactl_fd, SYS_request_key,
    SYS_security, SYS_set_mempolicy_home_node, SYS_tuxcall, SYS_vserver};
/* Not in docker's profile. */
static int const docker[] = {
    SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_keyctl, SYS_mount, SYS_move_mount,
    SYS_open_tree, SYS_pidfd_getfd, SYS_pivot_root, SYS_reboot, SYS_setns, SYS_syslog, SYS_umount2,
    SYS_unshare};
/* Not in podman's profile, and the calls that it refuses with EPERM. */
static int const podman[] = {
    SYS_futex_waitv, SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup,
    SYS_landlock_add_rule, SYS_landlock_create_ruleset, SYS_landlock_restrict_self,
    SYS_memfd_secret, SYS_process_mrelease};
static int const podman_eperm[] = {
    SYS_io_pgetevents, SYS_membarrier, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace,
    SYS_setns, SYS_vmsplice};
/* The personalities that both allow a program to request; ADDR_NO_RANDOMIZE is not one of them. */
static unsigned const personas[] = {0, 8, 0x20000, 0x20008, 0xffffffff};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct sock_filter code[1024];
static unsigned short len;

static void add(unsigned op, unsigned yes, unsigned no, unsigned value) {
    struct sock_filter next = {(unsigned short)op, (unsigned char)yes, (unsigned char)no, value};
    code[len++] = next;
}
static void load(size_t offset) {
    add(BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)offset);
}
static void end(unsigned what) {
    add(BPF_RET | BPF_K, 0, 0, what);
}
static void refuse(int const *calls, size_t count, unsigned answer) {
    for (size_t i = 0; i < count; i++) {
        add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)calls[i]);
        end(SECCOMP_RET_ERRNO | answer);
    }
}

static void rules(int is_docker, unsigned answer) {
    load(offsetof(struct seccomp_data, nr));
    add(BPF_JMP | BPF_JGT | BPF_K, 0, 1, LAST);
    end(SECCOMP_RET_ERRNO | answer);
    refuse(privileged, COUNT(privileged), EPERM);
    refuse(unnamed, COUNT(unnamed), answer);
    if (is_docker) {
        refuse(docker, COUNT(docker), answer);
        refuse((int const[]){SYS_clone3}, 1, ENOSYS);
        add(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, SYS_clone);
        load(offsetof(struct seccomp_data, args[0]));
        add(BPF_JMP | BPF_JSET | BPF_K, 0, 1, NAMESPACES);
        end(SECCOMP_RET_ERRNO | answer);
        load(offsetof(struct seccomp_data, nr));
    } else {
        refuse(podman_eperm, COUNT(podman_eperm), EPERM);
        refuse(podman, COUNT(podman), answer);
    }
    add(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_personality);
    end(SECCOMP_RET_ALLOW);
    load(offsetof(struct seccomp_data, args[0]));
    for (size_t i = 0; i < COUNT(personas); i++) {
        add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, personas[i]);
        end(SECCOMP_RET_ALLOW);
    }
    end(SECCOMP_RET_ERRNO | answer);
}

/* Keeps only the capabilities of a container's root: chown, dac_override, fowner, fsetid, kill,
 * setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap. */
static void drop_capabilities(void) {
    unsigned const kept = 0xa80425fb;
    for (int bit = 0; bit < 64; bit++)
        if (bit > 31 || !(kept >> bit & 1))
            prctl(PR_CAPBSET_DROP, bit, 0, 0, 0);
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2] = {{0}};
    syscall(SYS_capget, &head, caps);
    for (int half = 0; half < 2; half++) {
        caps[half].permitted &= half ? 0 : kept;
        caps[half].effective = caps[half].permitted;
        caps[half].inheritable = 0;
    }
    syscall(SYS_capset, &head, caps);
}

int main(int count, char **words) {
    if (count < 4)
        return 2;
    rules(!strcmp(words[1], "docker"), strcmp(words[2], "EPERM") ? ENOSYS : EPERM);
    drop_capabilities();
    struct sock_fprog program = {len, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("seccomp");
        return 99;
    }
    execvp(words[3], words + 3);
    perror(words[3]);
    return 98;
}
