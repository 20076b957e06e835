//! CRC-32C (Castagnoli, reflected, as in iSCSI, RFC 3720 section 12.1).
//!
//! It finds every error of up to 32 bits in a row, and every error of three bits in a record of any size
//! that is read. It is no protection against a person who writes records: only root can.

const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = table();

/// The checksum of some bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        let index = usize::from(crc.to_le_bytes()[0] ^ byte);
        // A byte has 256 values, and the table as many entries.
        (crc >> 8) ^ TABLE.get(index).copied().unwrap_or_default()
    })
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_one() {
        // RFC 3720, appendix B.4, and the check value of the catalogues.
        let ascending: Vec<u8> = (0..32).collect();
        for (bytes, expect) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!(crc32c(bytes), expect, "{bytes:?}");
        }
    }
}
