//! The API of a gateway that has all features. These tests go over every route of the OpenAPI
//! document, so they hold only while no feature is left out.

mod audit;
mod authorization;
mod documents;
mod idempotency;
mod keys;
mod rate_limits;
mod rules;
mod samples;
