mod derived;
mod rules;
mod stored;
mod values;
