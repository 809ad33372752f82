from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('bills', '0003_disk'),
    ]

    operations = [
        migrations.AddField(
            model_name='usagehour',
            name=name,
            field=models.BigIntegerField(default=0),
        )
        for name in ('batches_cpu_us', 'batches_nanos', 'limit_cpu_us', 'limit_nanos', 'limit_known_ms')
    ]
