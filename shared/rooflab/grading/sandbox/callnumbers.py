"""By which numbers does the kernel know the system calls that guests may not make, or only in some forms?

Each name has two numbers: on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl of Linux) and on aarch64
(include/uapi/asm-generic/unistd.h); None where the architecture has no such call.

>>> REFUSED["mount"], CONDITIONAL["clone"]
((165, 40), (56, 220))
"""

from __future__ import annotations

__all__ = ["ARCHITECTURES", "CONDITIONAL", "NEWEST", "REFUSED"]

# machine as uname tells it -> (column, AUDIT_ARCH of linux/audit.h)
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# The last call that was looked at for these tables (file_setattr, Linux 6.17); newer ones do not exist for guests.
NEWEST = 469

REFUSED: dict[str, tuple[int | None, int | None]] = {
    # mounts, roots and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "setns": (308, 268),
    "unshare": (272, 97), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig":
    (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr":
    (467, 467), "statmount": (457, 457), "listmount": (458, 458),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise":
    (440, 440), "process_mrelease": (448, 448), "pidfd_getfd": (438, 438), "kcmp": (312, 272), "move_pages":
    (279, 239), "migrate_pages": (256, 238), "perf_event_open": (298, 241), "lookup_dcookie": (212, 18),
    # the kernel itself
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "bpf": (321, 280), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "init_module":
    (175, 105), "delete_module": (176, 106), "finit_module": (313, 273), "create_module": (174, None),
    "query_module": (178, None), "get_kernel_syms": (177, None), "reboot": (169, 142), "syslog": (103, 116),
    "_sysctl": (156, None), "uselib": (134, None), "ustat": (136, None), "sysfs": (139, None), "modify_ldt":
    (154, None), "iopl": (172, None), "ioperm": (173, None), "nfsservctl": (180, 42), "lsm_set_self_attr": (460,
    460),
    # keys, handles, watches
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264), "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "inotify_add_watch":
    (254, 27),
    # the machine's clock, name, disks
    "swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163,
    89), "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159,
    171), "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58),
    # memory that nobody is charged for, and what outlives its process
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196), "shmctl":
    (31, 195), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191), "msgget":
    (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183), "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
}  # fmt: skip

CONDITIONAL: dict[str, tuple[int, int]] = {
    "clone": (56, 220), "clone3": (435, 435), "ioctl": (16, 29), "socket": (41, 198), "personality": (135, 92),
    "socketpair": (53, 199),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "prlimit64": (302, 261), "fcntl": (72,
    25), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "setpriority": (141, 140), "ioprio_set": (251, 30),
}  # fmt: skip
