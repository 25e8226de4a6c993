mod derived;
mod rules;
mod values;
