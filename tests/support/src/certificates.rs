//! Certificate authorities for a test, and the certificates that they sign, in PEM.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// A certificate authority.
pub struct Authority {
    pub certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self {
            certificate,
            issuer,
        }
    }

    /// A certificate for these names and addresses, valid for centuries.
    pub fn issue(&self, names: &[&str]) -> Identity {
        self.sign(&params(names))
    }

    /// A certificate as of `issue`, valid in the year 2000 only.
    #[allow(dead_code, reason = "not every test that shares this file needs it")]
    pub fn issue_expired(&self, names: &[&str]) -> Identity {
        let mut params = params(names);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2000, 12, 31);
        self.sign(&params)
    }

    /// A certificate as of `issue`, valid until so long after 1970.
    #[allow(dead_code, reason = "not every test that shares this file needs it")]
    pub fn issue_until(&self, names: &[&str], end: Duration) -> Identity {
        let mut params = params(names);
        params.not_after = date_time_ymd(1970, 1, 1) + end;
        self.sign(&params)
    }

    /// A certificate as of `issue`, valid from the year 3000 on.
    #[allow(dead_code, reason = "not every test that shares this file needs it")]
    pub fn issue_early(&self, names: &[&str]) -> Identity {
        let mut params = params(names);
        params.not_before = date_time_ymd(3000, 1, 1);
        self.sign(&params)
    }

    /// A certificate as of `issue`, for a name in the CN alone.
    #[allow(dead_code, reason = "not every test that shares this file needs it")]
    pub fn issue_common(&self, name: &str) -> Identity {
        let mut params = params(&[]);
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(&params)
    }

    /// A certificate as of `issue`, of an authority.
    #[allow(dead_code, reason = "not every test that shares this file needs it")]
    pub fn issue_authority(&self, names: &[&str]) -> Identity {
        let mut params = params(names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        Identity {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let common = names.first().cloned().unwrap_or_default();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, common);
    params
}
