//! Forks processes.

#![expect(unsafe_code, reason = "only the system can fork")]

/// Whether something is so in a forked process. If that waits forever, an alarm ends it, and it is not so.
pub fn in_a_fork(is_so: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child takes locks and memory that can be used after a fork, and ends without clearing up.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(20);
            libc::_exit(i32::from(!is_so()));
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status == 0
    }
}
