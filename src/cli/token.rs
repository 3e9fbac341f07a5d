//! `rollcall token` prints a token for development.

use crate::auth::mint::{Grant, TokenSigner};
use crate::base::exit;
use crate::config::{Config, TokenArgs};

/// Writes a token to standard output and returns the exit code.
pub fn run(config: &Config, args: &TokenArgs) -> u8 {
    let signer = match (&args.jwt_private_key, &config.jwt_hs256_secret_file) {
        (Some(path), _) => TokenSigner::of_private_key(path),
        (None, Some(path)) => TokenSigner::of_secret_file(path),
        (None, None) => {
            let missing = "token needs a key to sign with: --jwt-hs256-secret-file FILE or --jwt-private-key FILE";
            return exit::say(exit::WRONG_SETTINGS, missing);
        }
    };
    let grant = Grant {
        ttl: args.ttl,
        lives: args.lives.clone(),
        fan_of: args.fan_of.clone(),
        counted: !args.no_count,
        audience: config.jwt_audience.clone(),
        issuer: config.jwt_issuer.clone(),
        ..Grant::new(args.sub.clone(), args.role)
    };
    match signer.map(|signer| signer.sign(&grant)) {
        Ok(Ok(token)) => exit::print(exit::STOPPED, token.reveal()),
        Ok(Err(why)) => exit::say(exit::BUG, why),
        Err(why) => exit::say(exit::WRONG_SETTINGS, why),
    }
}
