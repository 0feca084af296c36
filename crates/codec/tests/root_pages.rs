//! Pages that ROOT wrote, with the values that ROOT reads from them.
//!
//! ROOT 6.40.00 wrote 21 entries with `RNTupleWriter`, uncompressed, one field for each column type
//! (`SetTruncated`, `SetQuantized`, `SetHalfPrecision`, `SetColumnRepresentatives`). `PAGE_…` are
//! the bytes of the pages, located by uproot. `READ_…` are the bits of the values that
//! `RNTupleReader` returned; where they are missing, the test has the formula of the values. The
//! range of `QUANT…` is −3.5 to 10.25, that of `DQUANT13` (a field of type double) −0.1 to 0.7.

use femtobarn_codec::{bits, delta, real, transpose, zigzag};

const N: usize = 21;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|c| u8::try_from(c.to_digit(16)?).ok())
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect()
}

#[test]
fn truncated_reals_are_those_of_root() {
    for (page, n_bits, read) in [
        (PAGE_TRUNC10, 10, READ_TRUNC10),
        (PAGE_TRUNC17, 17, READ_TRUNC17),
        (PAGE_TRUNC24, 24, READ_TRUNC24),
        (PAGE_TRUNC31, 31, READ_TRUNC31),
    ] {
        let mut out = [0.0; N];
        real::unpack_truncated(&bytes(page), n_bits, &mut out).unwrap();
        assert_eq!(out.map(f32::to_bits), read, "{n_bits} bits");
        let mut back = vec![0; bytes(page).len()];
        real::pack_truncated(&out, n_bits, &mut back).unwrap();
        assert_eq!(back, bytes(page), "{n_bits} bits");
    }
}

#[test]
fn quantized_reals_are_those_of_root_to_the_bit() {
    for (page, n_bits, read) in [
        (PAGE_QUANT1, 1, READ_QUANT1),
        (PAGE_QUANT7, 7, READ_QUANT7),
        (PAGE_QUANT12, 12, READ_QUANT12),
        (PAGE_QUANT20, 20, READ_QUANT20),
        (PAGE_QUANT27, 27, READ_QUANT27),
        (PAGE_QUANT32, 32, READ_QUANT32),
    ] {
        let mut out = [0.0; N];
        real::unpack_quantized(&bytes(page), n_bits, -3.5, 10.25, &mut out).unwrap();
        assert_eq!(out.map(f32::to_bits), read, "{n_bits} bits");
    }
    let mut out = [0.0; N];
    real::unpack_quantized_f64(&bytes(PAGE_DQUANT13), 13, -0.1, 0.7, &mut out).unwrap();
    assert_eq!(out.map(f64::to_bits), READ_DQUANT13);
}

#[test]
fn quantized_reals_are_packed_as_by_root() {
    let reals: Vec<f32> = (0..21u8)
        .map(|i| (-3.5 + 13.75 * f32::from(i * 8 % 21) / 20.0).min(10.25))
        .collect();
    for (page, n_bits) in [(PAGE_QUANT7, 7), (PAGE_QUANT20, 20), (PAGE_QUANT32, 32)] {
        let mut back = vec![0; bytes(page).len()];
        real::pack_quantized(&reals, n_bits, -3.5, 10.25, &mut back).unwrap();
        assert_eq!(back, bytes(page), "{n_bits} bits");
    }
}

#[test]
fn halfs_are_those_of_root() {
    let mut out = [0.0; N];
    real::half_to_f32(&bytes(PAGE_HALF), &mut out).unwrap();
    assert_eq!(out.map(f32::to_bits), READ_HALF);
    let reals: Vec<f32> = (0..21u16)
        .map(|i| {
            let i = f32::from(i);
            (if i % 2.0 == 1.0 { -1.0 } else { 1.0 }) * 1.1 * i * i * i / 100.0
        })
        .collect();
    let mut back = [0; 2 * N];
    real::f32_to_half(&reals, &mut back).unwrap();
    assert_eq!(back.to_vec(), bytes(PAGE_HALF));
}

#[test]
fn signed_integers_are_those_of_root() {
    let sign = |i: i64| if i % 2 == 1 { -1 } else { 1 };
    let mut out = [0; 8 * N];
    zigzag::unsplit_zigzag(&bytes(PAGE_I16), 2, &mut out[..2 * N]).unwrap();
    let read = out[..2 * N]
        .chunks(2)
        .map(|word| i64::from(i16::from_ne_bytes(word.try_into().unwrap())));
    assert!(read.eq((0..21).map(|i| sign(i) * i * 999)));
    zigzag::unsplit_zigzag(&bytes(PAGE_I32), 4, &mut out[..4 * N]).unwrap();
    let read = out[..4 * N]
        .chunks(4)
        .map(|word| i64::from(i32::from_ne_bytes(word.try_into().unwrap())));
    assert!(read.eq((0..21).map(|i| sign(i) * i * 99_999_999)));
    zigzag::unsplit_zigzag(&bytes(PAGE_I64), 8, &mut out).unwrap();
    let read = out
        .chunks(8)
        .map(|word| i64::from_ne_bytes(word.try_into().unwrap()));
    assert!(read.eq((0..21).map(|i| sign(i) * i * 299_792_458_299_792_458)));
}

#[test]
fn split_words_are_those_of_root() {
    let mut out = [0; 8 * N];
    transpose::unsplit(&bytes(PAGE_U32), 4, &mut out[..4 * N]).unwrap();
    let read = out[..4 * N]
        .chunks(4)
        .map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
    assert!(read.eq((0..21u32).map(|i| i.wrapping_mul(123_456_789))));
    transpose::unsplit(&bytes(PAGE_F64), 8, &mut out).unwrap();
    let read = out
        .chunks(8)
        .map(|word| f64::from_ne_bytes(word.try_into().unwrap()));
    assert!(read.eq((0..21u8).map(|i| f64::from(i) / 3.0 - 2.0)));
}

#[test]
fn bits_are_those_of_root() {
    let mut out = [7; N];
    bits::unpack_bools(&bytes(PAGE_B), &mut out).unwrap();
    assert!(
        out.into_iter()
            .eq((0..21u16).map(|i| u8::from(i * i % 3 == 1)))
    );
}

#[test]
fn indexes_are_those_of_root() {
    let ends = |size: fn(u64) -> u64| {
        (0..21).scan(0, move |end, i| {
            *end += size(i);
            Some(*end)
        })
    };
    let mut out = [0; N];
    delta::unsplit_delta_32(&bytes(PAGE_V32), &mut out).unwrap();
    assert!(out.into_iter().eq(ends(|i| i * i % 5)));
    delta::unsplit_delta_64(&bytes(PAGE_V64), &mut out).unwrap();
    assert!(out.into_iter().eq(ends(|i| i * i * i % 7 * 100)));
}

const PAGE_TRUNC10: &str = "00ecfb8fc003116c90c107218c50c20a29acd0c20b31cc10c30c01";

const PAGE_TRUNC17: &str =
    "000096fb2eff1108bc1ce84cb0c0a0afc1cb8344089f1192252c50e8a5f057a1c9c2cb85060c8b1822327c6608";

const PAGE_TRUNC24: &str = "000000c8e5bec8e53f4181c0c8e5408533c1418141edafc1c8e5416911c28533423759c2418142b197c2edaf42\
    f5c9c2c8e542b301c36911430422c3853343";

const PAGE_TRUNC31: &str = "000000803e72b96f1fb9fcc7101408dc472e070a14ce041b820283e0edafc17de4f2a04b5a8470a07046e87f93\
    256c080a14bac65e0ac3db5f85a2f5c9c27de472a1fc6cc0f0252d62484320321c289c1902";

const PAGE_QUANT1: &str = "b4b416";

const PAGE_QUANT7: &str = "80997962cc9bb2861c3bc3fcb3be0da01c3405";

const PAGE_QUANT12: &str = "006066cc6c26cc28f3cd34b3cd3073993d3399f9ff99f5bf9a0180660e40660a";

const PAGE_QUANT20: &str = "0000606666cccc6c6626cccc2833f3cdcc3433b3cdcc30337399993d33339999f9ffff9999f5ffbf9a99010080\
    66660e004066660a";

const PAGE_QUANT27: &str = "00000098999999999999676666626666c6cccccc9b9999293333b3666666c8cccc1c3333b3333333c3ccccccff\
    ffff333333ebffffbfcdcccc000000a0cccccc01000034333353";

const PAGE_QUANT32: &str = "0000000066666666cccccccc66666626cccccc8c323333f3cdcccc4c333333b3cdcccc0c33333373999999d933\
    33333399999999ffffffff99999959ffffffbf9a99991900000080666666e600000040666666a6";

const PAGE_DQUANT13: &str =
    "000180fd5b90f2013f3650faa16002ac7d6140f317ff38a8faacc003d8fd66f0f32d01";

const PAGE_HALF: &str =
    "0000a2a1a22dc1b4a23980bdc1408cc3a24502c8804952cbc14c0bce8c4fa4d0a251c1d20254b7d48055";

const PAGE_I16: &str =
    "00cd9c693805d4a1703d0cd9a8754411e0ad7c491800070f171f272e363e464e555d656d757c848c949c";

const PAGE_I32: &str = "00fdfcf9f8f5f4f1f0edece9e8e5e4e1e0dddcd9d800c1834507c98b4d0fd1935517d99b5d1fe1a3652700ebd7\
    c3af9a86725e4935210df8e4d0bca7937f6b000b17232f3b47535f6b77838f9aa6b2becad6e2ee";

const PAGE_I64: &str = "009328bb50e3780ba033c85bf08318ab40d368fb9000b87129e29a530cc47d35eea65f18d08941fab26b009933\
    cd66009a34cd67019a34ce68019b35ce6802000e1d2b3a495766748392a0afbdccdbe9f8061524004e9cea3886\
    d42270be0c5aa8f64492e02e7dcb1900274e759dc4eb133a6189b0d7fe264d749cc3ea120052a4f6489aec3f91\
    e33587d92b7ed02274c6186b000810182129313a424a535b636c747c858d959ea6";

const PAGE_U32: &str = "00152a3f54697e93a8bdd2e7fc11263b50657a8fa400cd9a673401ce9b683502cf9c6a3704d19e6b3805005bb7\
    136fcb2682de3a96f14da90561bc1874d02c00070e161d242c333a424950585f676e757d848b93";

const PAGE_F64: &str = "00ab560056540058540056aa00aa5600aa560055ab00aa550055550055550055aa00aa5500aa550055aa00aa55\
    0055550055550055aa00aa5500aa550055aa00aa550055550055550055aa00aa5500aa550055aa00aa55005555\
    0055550055aa00aa5500aa550055aa00aa550055550055550055aa00aa5500aa550055aa00faf5f0e5d500d5e5\
    f0f5fa000205080a0d101112c0bfbfbfbfbf003f3f3f3f3f404040404040404040";

const PAGE_B: &str = "b66d7b";

const PAGE_V32: &str = "000104040100010404010001040401000104040100000000000000000000000000000000000000000000000000\
    000000000000000000000000000000000000000000000000000000000000000000000000000000";

const PAGE_V64: &str = "006464586458580064645864585800646458645858000000020002020000000200020200000002000202000000\
    000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000000000000000000000000000000000000000000000000000000000000";

const READ_TRUNC10: [u32; 21] = [
    0x0000_0000,
    0xbec0_0000,
    0x3fc0_0000,
    0xc080_0000,
    0x40c0_0000,
    0xc100_0000,
    0x4180_0000,
    0xc180_0000,
    0x41c0_0000,
    0xc200_0000,
    0x4200_0000,
    0xc240_0000,
    0x4280_0000,
    0xc280_0000,
    0x4280_0000,
    0xc2c0_0000,
    0x42c0_0000,
    0xc300_0000,
    0x4300_0000,
    0xc300_0000,
    0x4300_0000,
];

const READ_TRUNC17: [u32; 21] = [
    0x0000_0000,
    0xbee5_8000,
    0x3fe5_8000,
    0xc081_0000,
    0x40e5_8000,
    0xc133_8000,
    0x4181_0000,
    0xc1af_8000,
    0x41e5_8000,
    0xc211_0000,
    0x4233_8000,
    0xc259_0000,
    0x4281_0000,
    0xc297_8000,
    0x42af_8000,
    0xc2c9_8000,
    0x42e5_8000,
    0xc301_8000,
    0x4311_0000,
    0xc322_0000,
    0x4333_8000,
];

const READ_TRUNC24: [u32; 21] = [
    0x0000_0000,
    0xbee5_c800,
    0x3fe5_c800,
    0xc081_4100,
    0x40e5_c800,
    0xc133_8500,
    0x4181_4100,
    0xc1af_ed00,
    0x41e5_c800,
    0xc211_6900,
    0x4233_8500,
    0xc259_3700,
    0x4281_4100,
    0xc297_b100,
    0x42af_ed00,
    0xc2c9_f500,
    0x42e5_c800,
    0xc301_b300,
    0x4311_6900,
    0xc322_0400,
    0x4333_8500,
];

const READ_TRUNC31: [u32; 21] = [
    0x0000_0000,
    0xbee5_c8fa,
    0x3fe5_c8fa,
    0xc081_410c,
    0x40e5_c8fa,
    0xc133_8502,
    0x4181_410c,
    0xc1af_ede0,
    0x41e5_c8fa,
    0xc211_692e,
    0x4233_8502,
    0xc259_37fe,
    0x4281_410c,
    0xc297_b1ae,
    0x42af_ede0,
    0xc2c9_f5a2,
    0x42e5_c8fa,
    0xc301_b3f2,
    0x4311_692e,
    0xc322_0434,
    0x4333_8502,
];

const READ_QUANT1: [u32; 21] = [
    0xc060_0000,
    0xc060_0000,
    0x4124_0000,
    0xc060_0000,
    0x4124_0000,
    0x4124_0000,
    0xc060_0000,
    0x4124_0000,
    0xc060_0000,
    0xc060_0000,
    0x4124_0000,
    0xc060_0000,
    0x4124_0000,
    0x4124_0000,
    0xc060_0000,
    0x4124_0000,
    0xc060_0000,
    0x4124_0000,
    0x4124_0000,
    0xc060_0000,
    0x4124_0000,
];

const READ_QUANT7: [u32; 21] = [
    0xc060_0000,
    0x4001_62c6,
    0x40f1_62c6,
    0xbfb8_b163,
    0x4082_850a,
    0x4119_9b36,
    0x3f1d_3a75,
    0x40c4_58b1,
    0xc036_6cda,
    0x402a_f5ec,
    0x4103_162c,
    0xbf4b_162c,
    0x4097_4e9d,
    0x4124_0000,
    0x3fa1_c387,
    0x40d9_2245,
    0xc005_ebd8,
    0x405b_76ee,
    0x410d_7af6,
    0xbd11_2245,
    0x40af_8f1e,
];

const READ_QUANT12: [u32; 21] = [
    0xc060_0000,
    0x4000_0000,
    0x40f0_0000,
    0xbfb8_1b82,
    0x4081_f920,
    0x4118_fc90,
    0x3f20_6e07,
    0x40c4_0dc1,
    0xc033_f23f,
    0x402c_0dc1,
    0x4103_0370,
    0xbf40_0000,
    0x4098_0000,
    0x4124_0000,
    0x3fa7_e47e,
    0x40d9_f920,
    0xc007_e47e,
    0x4058_1b82,
    0x410e_06e0,
    0xbd7c_8fc9,
    0x40ae_06e0,
];

const READ_QUANT20: [u32; 21] = [
    0xc060_0000,
    0x4000_0000,
    0x40f0_0000,
    0xbfb8_001c,
    0x4081_fff9,
    0x4118_fffd,
    0x3f20_006e,
    0x40c4_000e,
    0xc033_fff2,
    0x402c_000e,
    0x4103_0003,
    0xbf40_0000,
    0x4098_0000,
    0x4124_0000,
    0x3fa7_ffe4,
    0x40d9_fff9,
    0xc007_ffe4,
    0x4058_001c,
    0x410e_0007,
    0xbd7f_fc90,
    0x40ae_0007,
];

const READ_QUANT27: [u32; 21] = [
    0xc060_0000,
    0x4000_0000,
    0x40f0_0000,
    0xbfb8_0000,
    0x4082_0000,
    0x4119_0000,
    0x3f20_0000,
    0x40c4_0000,
    0xc034_0000,
    0x402c_0000,
    0x4103_0000,
    0xbf40_0001,
    0x4098_0000,
    0x4124_0000,
    0x3fa8_0000,
    0x40da_0000,
    0xc008_0000,
    0x4058_0000,
    0x410e_0000,
    0xbd7f_fff9,
    0x40ae_0000,
];

const READ_QUANT32: [u32; 21] = [
    0xc060_0000,
    0x4000_0000,
    0x40f0_0000,
    0xbfb8_0000,
    0x4082_0000,
    0x4119_0000,
    0x3f20_0000,
    0x40c4_0000,
    0xc034_0000,
    0x402c_0000,
    0x4103_0000,
    0xbf40_0000,
    0x4098_0000,
    0x4124_0000,
    0x3fa8_0000,
    0x40da_0000,
    0xc008_0000,
    0x4058_0000,
    0x410e_0000,
    0xbd80_0000,
    0x40ae_0000,
];

const READ_HALF: [u32; 21] = [
    0x0000_0000,
    0xbc34_4000,
    0x3db4_4000,
    0xbe98_2000,
    0x3f34_4000,
    0xbfb0_0000,
    0x4018_2000,
    0xc071_8000,
    0x40b4_4000,
    0xc100_4000,
    0x4130_0000,
    0xc16a_4000,
    0x4198_2000,
    0xc1c1_6000,
    0x41f1_8000,
    0xc214_8000,
    0x4234_4000,
    0xc258_2000,
    0x4280_4000,
    0xc296_e000,
    0x42b0_0000,
];

const READ_DQUANT13: [u64; 21] = [
    0xbfb3_32ff_fe66_599a,
    0x3fc9_9acc_d666_b335,
    0x3fde_65f3_2f99_7ccc,
    0x3f9c_d0e6_8734_39a0,
    0x3fd3_659b_2cd9_66ca,
    0x3fe2_7fe0_cbd3_2b66,
    0x3fc0_cdb9_a100_3b34,
    0x3fd9_ff69_94e6_40cc,
    0xbfa4_cbd9_91ff_c333,
    0x3fce_0156_7119_ef35,
    0x3fe0_4c9b_fe79_8d66,
    0x3fb0_014c_d733_8668,
    0x3fd5_98df_fa33_04ca,
    0x3fe3_9983_327f_fa66,
    0x3fc5_3443_3bb3_7735,
    0x3fdc_32ae_623f_decc,
    0xbf79_8d99_3996_9990,
    0x3fd1_33f0_05e6_959a,
    0x3fe1_663e_6526_5c66,
    0x3fb8_ce60_0c99_fe68,
    0x3fd7_cc24_c78c_a2ca,
];
