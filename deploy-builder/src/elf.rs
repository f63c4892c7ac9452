//! Whether a file is a program for Lambda's processor: the first bytes say so.

use crate::plan::Arch;

const MAGIC: &[u8] = b"\x7fELF";
/// 64 bits, little-endian, version 1.
const IDENT: &[u8] = &[2, 1, 1];
const MACHINE: std::ops::Range<usize> = 18..20;

/// The error says what it is instead.
pub fn check(program: &[u8], arch: Arch) -> Result<(), String> {
    if !program.starts_with(MAGIC) {
        return Err(String::from("is no Linux program (ELF)"));
    }
    let machine = program
        .get(MACHINE)
        .map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    let (Some(machine), Some(IDENT)) = (machine, program.get(4..7)) else {
        return Err(String::from("is no Linux program of 64 bits"));
    };
    if machine == number(arch) {
        return Ok(());
    }
    Err(
        match [Arch::X86_64, Arch::Arm64]
            .into_iter()
            .find(|arch| number(*arch) == machine)
        {
            Some(other) => format!("is a program for {other}, not for {arch}"),
            None => format!("is a program for another processor (ELF machine {machine}), not for {arch}"),
        },
    )
}

fn number(arch: Arch) -> u16 {
    match arch {
        Arch::X86_64 => 62,
        Arch::Arm64 => 183,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_by_its_head() {
        let mut program = [
            b"\x7fELF\x02\x01\x01".as_slice(),
            &[0; 11],
            &62u16.to_le_bytes(),
            &[0; 44],
        ]
        .concat();
        assert_eq!(check(&program, Arch::X86_64), Ok(()));
        assert!(check(&program, Arch::Arm64).unwrap_err().contains("for x86_64"));
        program[18] = 40;
        assert!(check(&program, Arch::Arm64).unwrap_err().contains("machine 40"));
        assert!(check(&program[..10], Arch::X86_64).is_err());
        assert!(check(b"#!/bin/sh\n", Arch::X86_64).is_err());
    }
}
