//! Where two files differ, and what can be read there: mostly it is a path or a name.

use std::fmt::Write as _;

/// So many bytes before and after the first difference are looked at.
const AROUND: usize = 160;
/// Shorter runs of letters are chance.
const SHORTEST: usize = 6;

/// `None` if they are the same.
pub fn between(name: &str, (one, first): (&str, &[u8]), (other, second): (&str, &[u8])) -> Option<String> {
    if first == second {
        return None;
    }
    let same = first.iter().zip(second).take_while(|(one, other)| one == other).count();
    let mut text = format!("{name}: the first difference is at byte {same} ({same:#x})");
    let _ = match first.len() == second.len() {
        true => {
            let differ = first.iter().zip(second).filter(|(one, other)| one != other).count();
            write!(text, "; {differ} of {} bytes differ", first.len())
        }
        false => write!(text, "; {} bytes in {one}, {} in {other}", first.len(), second.len()),
    };
    for (name, bytes) in [(one, first), (other, second)] {
        let _ = write!(
            text,
            "\n  strings there in {name}: {}",
            strings(bytes, same).join(" · ")
        );
    }
    Some(text)
}

/// What can be read around a place.
fn strings(bytes: &[u8], at: usize) -> Vec<String> {
    let end = bytes.len().min(at + AROUND);
    let window = &bytes[at.saturating_sub(AROUND).min(end)..end];
    let runs = window.split(|byte| !(byte.is_ascii_graphic() || *byte == b' '));
    runs.filter(|run| run.len() >= SHORTEST)
        .map(|run| String::from_utf8_lossy(run).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn the_first_difference_is_told_with_what_stands_there() {
        let one = b"\x00\x01abc\x00/home/one/outlast\x00tail";
        let other = b"\x00\x01abc\x00/home/two/outlast\x00tail";
        let text = between("x", ("A", one), ("B", other)).unwrap();
        assert_eq!(
            text,
            "x: the first difference is at byte 12 (0xc); 3 of 28 bytes differ\n  \
             strings there in A: /home/one/outlast\n  strings there in B: /home/two/outlast"
        );
        assert_eq!(between("x", ("A", one), ("B", one)), None);
        let shorter = between("x", ("A", one), ("B", &one[..4])).unwrap();
        assert!(shorter.contains("byte 4 (0x4); 28 bytes in A, 4 in B"), "{shorter}");
    }
}
