use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Full")]
struct Before {
    #[partition_key]
    partition: String,
    #[row_key]
    row: String,
}

/// 250 fields, and the properties of the type, of the version and of the earliest reader: one more than an entity may have.
#[derive(TableEntity)]
#[entity(type = "Full", version = 3, min_reader = 2, previous = Before)]
struct TooMany {
    #[partition_key]
    partition: String,
    #[row_key]
    row: String,
    p0: i32, p1: i32, p2: i32, p3: i32, p4: i32, p5: i32, p6: i32, p7: i32, p8: i32, p9: i32,
    p10: i32, p11: i32, p12: i32, p13: i32, p14: i32, p15: i32, p16: i32, p17: i32, p18: i32, p19: i32,
    p20: i32, p21: i32, p22: i32, p23: i32, p24: i32, p25: i32, p26: i32, p27: i32, p28: i32, p29: i32,
    p30: i32, p31: i32, p32: i32, p33: i32, p34: i32, p35: i32, p36: i32, p37: i32, p38: i32, p39: i32,
    p40: i32, p41: i32, p42: i32, p43: i32, p44: i32, p45: i32, p46: i32, p47: i32, p48: i32, p49: i32,
    p50: i32, p51: i32, p52: i32, p53: i32, p54: i32, p55: i32, p56: i32, p57: i32, p58: i32, p59: i32,
    p60: i32, p61: i32, p62: i32, p63: i32, p64: i32, p65: i32, p66: i32, p67: i32, p68: i32, p69: i32,
    p70: i32, p71: i32, p72: i32, p73: i32, p74: i32, p75: i32, p76: i32, p77: i32, p78: i32, p79: i32,
    p80: i32, p81: i32, p82: i32, p83: i32, p84: i32, p85: i32, p86: i32, p87: i32, p88: i32, p89: i32,
    p90: i32, p91: i32, p92: i32, p93: i32, p94: i32, p95: i32, p96: i32, p97: i32, p98: i32, p99: i32,
    p100: i32, p101: i32, p102: i32, p103: i32, p104: i32, p105: i32, p106: i32, p107: i32, p108: i32, p109: i32,
    p110: i32, p111: i32, p112: i32, p113: i32, p114: i32, p115: i32, p116: i32, p117: i32, p118: i32, p119: i32,
    p120: i32, p121: i32, p122: i32, p123: i32, p124: i32, p125: i32, p126: i32, p127: i32, p128: i32, p129: i32,
    p130: i32, p131: i32, p132: i32, p133: i32, p134: i32, p135: i32, p136: i32, p137: i32, p138: i32, p139: i32,
    p140: i32, p141: i32, p142: i32, p143: i32, p144: i32, p145: i32, p146: i32, p147: i32, p148: i32, p149: i32,
    p150: i32, p151: i32, p152: i32, p153: i32, p154: i32, p155: i32, p156: i32, p157: i32, p158: i32, p159: i32,
    p160: i32, p161: i32, p162: i32, p163: i32, p164: i32, p165: i32, p166: i32, p167: i32, p168: i32, p169: i32,
    p170: i32, p171: i32, p172: i32, p173: i32, p174: i32, p175: i32, p176: i32, p177: i32, p178: i32, p179: i32,
    p180: i32, p181: i32, p182: i32, p183: i32, p184: i32, p185: i32, p186: i32, p187: i32, p188: i32, p189: i32,
    p190: i32, p191: i32, p192: i32, p193: i32, p194: i32, p195: i32, p196: i32, p197: i32, p198: i32, p199: i32,
    p200: i32, p201: i32, p202: i32, p203: i32, p204: i32, p205: i32, p206: i32, p207: i32, p208: i32, p209: i32,
    p210: i32, p211: i32, p212: i32, p213: i32, p214: i32, p215: i32, p216: i32, p217: i32, p218: i32, p219: i32,
    p220: i32, p221: i32, p222: i32, p223: i32, p224: i32, p225: i32, p226: i32, p227: i32, p228: i32, p229: i32,
    p230: i32, p231: i32, p232: i32, p233: i32, p234: i32, p235: i32, p236: i32, p237: i32, p238: i32, p239: i32,
    p240: i32, p241: i32, p242: i32, p243: i32, p244: i32, p245: i32, p246: i32, p247: i32, p248: i32, p249: i32,
}

/// As many as an entity may have.
#[derive(Default, TableEntity)]
#[entity(type = "Full", version = 3, min_reader = 2, previous = Before)]
struct Full {
    #[partition_key]
    partition: String,
    #[row_key]
    row: String,
    p0: i32, p1: i32, p2: i32, p3: i32, p4: i32, p5: i32, p6: i32, p7: i32, p8: i32, p9: i32,
    p10: i32, p11: i32, p12: i32, p13: i32, p14: i32, p15: i32, p16: i32, p17: i32, p18: i32, p19: i32,
    p20: i32, p21: i32, p22: i32, p23: i32, p24: i32, p25: i32, p26: i32, p27: i32, p28: i32, p29: i32,
    p30: i32, p31: i32, p32: i32, p33: i32, p34: i32, p35: i32, p36: i32, p37: i32, p38: i32, p39: i32,
    p40: i32, p41: i32, p42: i32, p43: i32, p44: i32, p45: i32, p46: i32, p47: i32, p48: i32, p49: i32,
    p50: i32, p51: i32, p52: i32, p53: i32, p54: i32, p55: i32, p56: i32, p57: i32, p58: i32, p59: i32,
    p60: i32, p61: i32, p62: i32, p63: i32, p64: i32, p65: i32, p66: i32, p67: i32, p68: i32, p69: i32,
    p70: i32, p71: i32, p72: i32, p73: i32, p74: i32, p75: i32, p76: i32, p77: i32, p78: i32, p79: i32,
    p80: i32, p81: i32, p82: i32, p83: i32, p84: i32, p85: i32, p86: i32, p87: i32, p88: i32, p89: i32,
    p90: i32, p91: i32, p92: i32, p93: i32, p94: i32, p95: i32, p96: i32, p97: i32, p98: i32, p99: i32,
    p100: i32, p101: i32, p102: i32, p103: i32, p104: i32, p105: i32, p106: i32, p107: i32, p108: i32, p109: i32,
    p110: i32, p111: i32, p112: i32, p113: i32, p114: i32, p115: i32, p116: i32, p117: i32, p118: i32, p119: i32,
    p120: i32, p121: i32, p122: i32, p123: i32, p124: i32, p125: i32, p126: i32, p127: i32, p128: i32, p129: i32,
    p130: i32, p131: i32, p132: i32, p133: i32, p134: i32, p135: i32, p136: i32, p137: i32, p138: i32, p139: i32,
    p140: i32, p141: i32, p142: i32, p143: i32, p144: i32, p145: i32, p146: i32, p147: i32, p148: i32, p149: i32,
    p150: i32, p151: i32, p152: i32, p153: i32, p154: i32, p155: i32, p156: i32, p157: i32, p158: i32, p159: i32,
    p160: i32, p161: i32, p162: i32, p163: i32, p164: i32, p165: i32, p166: i32, p167: i32, p168: i32, p169: i32,
    p170: i32, p171: i32, p172: i32, p173: i32, p174: i32, p175: i32, p176: i32, p177: i32, p178: i32, p179: i32,
    p180: i32, p181: i32, p182: i32, p183: i32, p184: i32, p185: i32, p186: i32, p187: i32, p188: i32, p189: i32,
    p190: i32, p191: i32, p192: i32, p193: i32, p194: i32, p195: i32, p196: i32, p197: i32, p198: i32, p199: i32,
    p200: i32, p201: i32, p202: i32, p203: i32, p204: i32, p205: i32, p206: i32, p207: i32, p208: i32, p209: i32,
    p210: i32, p211: i32, p212: i32, p213: i32, p214: i32, p215: i32, p216: i32, p217: i32, p218: i32, p219: i32,
    p220: i32, p221: i32, p222: i32, p223: i32, p224: i32, p225: i32, p226: i32, p227: i32, p228: i32, p229: i32,
    p230: i32, p231: i32, p232: i32, p233: i32, p234: i32, p235: i32, p236: i32, p237: i32, p238: i32, p239: i32,
    p240: i32, p241: i32, p242: i32, p243: i32, p244: i32, p245: i32, p246: i32, p247: i32, p248: i32,
}

impl From<Before> for Full {
    fn from(before: Before) -> Self {
        Self { partition: before.partition, row: before.row, ..Self::default() }
    }
}

fn main() {}
