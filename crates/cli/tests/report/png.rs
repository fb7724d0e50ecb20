//! Reads PNG files as browsers write them: 8 bits, RGB or RGBA, not interlaced.

use flate2::read::ZlibDecoder;
use std::{collections::BTreeSet, io::Read};

/// A picture, pixel by pixel.
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// The number of distinct colours.
    pub(crate) fn colors(&self) -> usize {
        self.pixels.iter().collect::<BTreeSet<_>>().len()
    }

    /// The share of pixels with this colour.
    pub(crate) fn share(&self, color: [u8; 3]) -> f64 {
        let same = self.pixels.iter().filter(|pixel| **pixel == color).count();
        same as f64 / self.pixels.len() as f64
    }
}

/// The picture in `file`.
pub(crate) fn read(file: &[u8]) -> Picture {
    let mut rest = file.strip_prefix(b"\x89PNG\r\n\x1a\n").expect("a PNG");
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
    let (mut size, mut samples, mut data) = ((0, 0), 0, Vec::new());
    while rest.len() >= 12 {
        let (length, kind) = (number(rest), &rest[4..8]);
        let chunk = &rest[8..8 + length];
        match kind {
            b"IHDR" => {
                size = (number(chunk), number(&chunk[4..]));
                samples = match chunk[8..13] {
                    [8, 2, 0, 0, 0] => 3,
                    [8, 6, 0, 0, 0] => 4,
                    ref other => panic!("a picture of another kind: {other:?}"),
                };
            }
            b"IDAT" => data.extend_from_slice(chunk),
            _ => {}
        }
        rest = &rest[12 + length..];
    }
    let mut lines = Vec::new();
    ZlibDecoder::new(&data[..]).read_to_end(&mut lines).unwrap();
    let (width, height) = size;
    let mut above = vec![0; width * samples];
    let mut pixels = Vec::with_capacity(width * height);
    for line in lines.chunks_exact(1 + width * samples) {
        let line = unfilter(line[0], &line[1..], &above, samples);
        pixels.extend(
            line.chunks_exact(samples)
                .map(|pixel| [pixel[0], pixel[1], pixel[2]]),
        );
        above = line;
    }
    assert_eq!(pixels.len(), width * height);
    Picture {
        width,
        height,
        pixels,
    }
}

/// Decodes a line that is stored as differences from the pixels to the left and above.
fn unfilter(filter: u8, line: &[u8], above: &[u8], samples: usize) -> Vec<u8> {
    let mut found = vec![0u8; line.len()];
    for at in 0..line.len() {
        let before = |line: &[u8]| at.checked_sub(samples).map_or(0, |at| line[at]);
        let (left, up, corner) = (before(&found), above[at], before(above));
        let (a, b, c) = (i32::from(left), i32::from(up), i32::from(corner));
        let guess = match filter {
            0 => 0,
            1 => a,
            2 => b,
            3 => (a + b) / 2,
            4 => {
                let distance = |it: i32| (a + b - c - it).abs();
                // `min_by_key` returns the first of equally near ones.
                [a, b, c]
                    .into_iter()
                    .min_by_key(|it| distance(*it))
                    .unwrap()
            }
            other => panic!("no filter {other}"),
        };
        found[at] = line[at].wrapping_add(u8::try_from(guess).unwrap());
    }
    found
}
