// Not run: the declarations also fit `require`.

import haul = require('haul-copy');

export const result: Promise<haul.Result> = haul.copyTree('a', 'b', { reflink: 'always' });
