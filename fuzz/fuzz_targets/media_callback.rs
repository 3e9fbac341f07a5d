#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rollcall::testing::fuzzing::media_callback(bytes));
