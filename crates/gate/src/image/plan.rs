//! The plan by which a process becomes an image: a list of system calls, and the few instructions
//! that make them.
//!
//! While the calls are made, nothing else of the process exists: its code, its stack and its C
//! library are replaced by them. So the instructions are copied to a place that neither the old
//! nor the new memory uses, need no stack, and read the list, which is complete before the first
//! call. After the last one they jump to where the image goes on. A call that fails is reported on
//! the control socket and ends the process.

use core::arch::{asm, global_asm};

use super::PAGE;
use crate::sys::{self, Errno};

// r12: the next call, r13: the end of the list, r14: the plan. A call is eight words: number, six
// arguments, and the result it must have, 0 for any that is no error. A system call changes no
// registers but rax, rcx and r11.
global_asm!(
    ".pushsection .text.silica_plan,\"ax\",@progbits",
    ".hidden silica_plan_start",
    ".hidden silica_plan_end",
    ".globl silica_plan_start",
    ".globl silica_plan_end",
    "silica_plan_start:",
    "2:",
    "cmp r12, r13",
    "je 4f",
    "mov rax, [r12]",
    "mov rdi, [r12 + 8]",
    "mov rsi, [r12 + 16]",
    "mov rdx, [r12 + 24]",
    "mov r10, [r12 + 32]",
    "mov r8, [r12 + 40]",
    "mov r9, [r12 + 48]",
    "syscall",
    "cmp rax, -4095",
    "jae 3f",
    "mov rcx, [r12 + 56]",
    "add r12, 64",
    "test rcx, rcx",
    "je 2b",
    "cmp rax, rcx",
    "je 2b",
    "3:",
    // sendto(3, report), then exit_group.
    "mov eax, 44",
    "mov edi, 3",
    "mov rsi, [r14 + 24]",
    "mov rdx, [r14 + 32]",
    "mov r10d, 0x4000",
    "xor r8d, r8d",
    "xor r9d, r9d",
    "syscall",
    "mov eax, 231",
    "mov edi, 124",
    "syscall",
    "ud2",
    "4:",
    "mov rsp, [r14 + 16]",
    "mov rax, r14",
    "jmp [r14 + 8]",
    "silica_plan_end:",
    ".popsection",
);

unsafe extern "C" {
    static silica_plan_start: [u8; 0];
    static silica_plan_end: [u8; 0];
}

/// One system call of a plan.
pub(super) type PlannedCall = [u64; 8];

/// The words at the beginning of a plan; `silica_plan_start` and `go_on` read them.
#[repr(C)]
struct PlanHead {
    size: u64,
    resume: u64,
    stack: u64,
    report: u64,
    report_length: u64,
}

/// Where the instructions are copied to, after the head; the list follows on the next page.
const CODE_OFFSET: usize = 512;
/// Where the report of a failure is, on the first page as well.
const REPORT_OFFSET: usize = 2048;
const REPORT_BYTES_MAX: usize = 2048;

/// A plan in memory of its own.
pub(super) struct Plan {
    base: u64,
    size: u64,
    /// Where the strings begin, after the room for all calls.
    text: u64,
    text_end: u64,
    calls: u64,
    calls_max: u64,
}

impl Plan {
    /// Returns the bytes that a plan of so many calls and so many bytes of strings takes.
    pub(super) fn size(calls: u64, text_bytes: u64) -> u64 {
        PAGE + (calls * size_of::<PlannedCall>() as u64 + text_bytes).next_multiple_of(PAGE)
    }

    /// Maps an empty plan at `base`, where nothing is and nothing will be.
    pub(super) fn map(base: u64, calls_max: u64, text_bytes: u64) -> Result<Self, Errno> {
        let size = Self::size(calls_max, text_bytes);
        sys::map_at(base as usize, size as usize)?;
        let text = base + PAGE + calls_max * size_of::<PlannedCall>() as u64;
        Ok(Self { base, size, text, text_end: base + size, calls: 0, calls_max })
    }

    /// Adds a call; `result` is the result it must have, 0 for any that is no error.
    pub(super) fn call(
        &mut self,
        number: u64,
        arguments: [u64; 6],
        result: u64,
    ) -> Result<(), Errno> {
        if self.calls == self.calls_max {
            return Err(super::maps::TOO_MANY);
        }
        let [first, second, third, fourth, fifth, sixth] = arguments;
        let call: PlannedCall = [number, first, second, third, fourth, fifth, sixth, result];
        let at = self.base + PAGE + self.calls * size_of::<PlannedCall>() as u64;
        let at: *mut PlannedCall = core::ptr::with_exposed_provenance_mut(at as usize);
        // SAFETY: the plan is mapped to write, has room for `calls_max` calls, and is aligned.
        unsafe { at.write(call) };
        self.calls += 1;
        Ok(())
    }

    /// Copies bytes into the plan; returns their address.
    pub(super) fn text(&mut self, bytes: &[u8]) -> Result<u64, Errno> {
        if self.text_end - self.text < bytes.len() as u64 {
            return Err(super::maps::TOO_MANY);
        }
        let address = self.text;
        copy_to(address, bytes);
        self.text += bytes.len() as u64;
        Ok(address)
    }

    /// Carries the plan out. Goes on at `resume` with `stack`, or ends the process with `report`.
    ///
    /// # Safety
    /// The calls must leave at `resume` and `stack` what an image has there, and must not touch the
    /// plan.
    pub(super) unsafe fn carry_out(
        self,
        resume: u64,
        stack: u64,
        report: &[u8],
    ) -> Result<core::convert::Infallible, Errno> {
        let start = (&raw const silica_plan_start).addr();
        let end = (&raw const silica_plan_end).addr();
        let code: *const u8 = core::ptr::with_exposed_provenance(start);
        // SAFETY: the two symbols are the ends of the instructions above.
        let code = unsafe { core::slice::from_raw_parts(code, end - start) };
        let report = &report[..report.len().min(REPORT_BYTES_MAX)];
        let head = PlanHead {
            size: self.size,
            resume,
            stack,
            report: self.base + REPORT_OFFSET as u64,
            report_length: report.len() as u64,
        };
        let at: *mut PlanHead = core::ptr::with_exposed_provenance_mut(self.base as usize);
        // SAFETY: the first page of the plan is mapped to write, and aligned.
        unsafe { at.write(head) };
        copy_to(self.base + CODE_OFFSET as u64, code);
        copy_to(self.base + REPORT_OFFSET as u64, report);
        // SAFETY: the plan is complete.
        unsafe { sys::make_executable(self.base as usize, self.size as usize) }?;
        let list = self.base + PAGE;
        let list_end = list + self.calls * size_of::<PlannedCall>() as u64;
        // SAFETY: the instructions at the address are the ones above, with what they need in their
        // registers; they do not return. The caller vouches for what they do.
        unsafe {
            asm!(
                "jmp rax",
                in("rax") self.base + CODE_OFFSET as u64,
                in("r12") list,
                in("r13") list_end,
                in("r14") self.base,
                options(noreturn),
            )
        }
    }
}

/// Copies bytes to an address within a plan.
fn copy_to(address: u64, bytes: &[u8]) {
    let to: *mut u8 = core::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: called for ranges within a plan, which is mapped to write and which nothing else
    // refers to.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}
